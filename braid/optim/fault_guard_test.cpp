#include "braid/optim/fault_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "braid/base/scratch_directory.h"

namespace braid::optim {
namespace {

/// A mapped file of some pages, filled with ones, without a name.
class Pages {
 public:
  explicit Pages(size_t count) {
    const ScratchDirectory directory;
    std::string path = directory.file(std::string(6, 'X'));
    fd_ = ::mkstemp(path.data());
    bytes_ = count * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) std::abort();
    data_ = static_cast<std::byte*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    if (data_ == MAP_FAILED) std::abort();
    for (size_t i = 0; i < bytes_; ++i) data_[i] = std::byte{1};
  }
  ~Pages() {
    ::munmap(data_, bytes_);
    ::close(fd_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> memory() const { return {data_, bytes_}; }
  void lose() const { ASSERT_EQ(::ftruncate(fd_, 0), 0); }
  int sum() const {
    int sum = 0;
    for (size_t i = 0; i < bytes_; ++i) sum += static_cast<volatile std::byte*>(data_)[i] == std::byte{1};
    return sum;
  }

 private:
  int fd_;
  size_t bytes_;
  std::byte* data_;
};

TEST(FaultGuard, ReplacesMemoryThatIsLost) {
  const Pages lost(3), kept(2);
  const FaultGuard lost_guard(lost.memory()), kept_guard(kept.memory());
  EXPECT_EQ(lost.sum(), lost.memory().size());
  EXPECT_FALSE(lost_guard.faulted());
  lost.lose();
  EXPECT_EQ(lost.sum(), 0);
  EXPECT_TRUE(lost_guard.faulted());
  lost.memory().back() = std::byte{1};
  EXPECT_EQ(lost.sum(), 1) << "and can be written to";
  EXPECT_FALSE(kept_guard.faulted());
  EXPECT_EQ(kept.sum(), kept.memory().size());
}

TEST(FaultGuard, ServesManyThreads) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([] {
      for (int round = 0; round < 20; ++round) {
        const Pages pages(2);
        const FaultGuard guard(pages.memory());
        EXPECT_EQ(pages.sum(), pages.memory().size());
        pages.lose();
        EXPECT_EQ(pages.sum(), 0);
        EXPECT_TRUE(guard.faulted());
      }
    });
  }
}

// Other memory is lost as before: the process ends, as it does when somebody sends it the signal.
TEST(FaultGuardDeathTest, OtherFaultsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Pages guarded(1), other(1);
  const FaultGuard guard(guarded.memory());
  other.lose();
  EXPECT_DEATH(other.sum(), "");
  EXPECT_DEATH(::kill(::getpid(), SIGBUS), "");
  { const FaultGuard for_a_while(other.memory()); }
  EXPECT_DEATH(other.sum(), "") << "a guard ends with its object";
}

}  // namespace
}  // namespace braid::optim
