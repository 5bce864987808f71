// What is particular to states in a file: memory in use, errors, and what is left behind.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/optim/adamw.h"
#include "braid/optim/state_file.h"
#include "braid/optim/state_store.h"
#include "braid/optim/test_parameters.h"

namespace braid::optim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename Error, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void add_segments(StateStore& store, int64_t count, int64_t numel) {
  for (int64_t i = 0; i < count; ++i)
    store.add({.master = at::ones({numel}), .exp_avg = at::ones({numel}), .exp_avg_sq = at::ones({numel})});
}

/// Bytes of mapped files in `directory` that are in this process's memory.
int64_t resident_bytes(const ScratchDirectory& directory) {
  std::ifstream maps("/proc/self/smaps");
  bool in_directory = false;
  int64_t kib = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) in_directory = line.find(directory.path()) != std::string::npos;
    if (in_directory && line.starts_with("Rss:")) kib += std::atoll(line.c_str() + std::strlen("Rss:"));
  }
  return kib * 1024;
}

/// The path at which the process's open file in `directory` can be reached although it has no name.
std::string open_file(const ScratchDirectory& directory) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.starts_with(directory.path().string() + "/")) return entry.path();
  }
  return "";
}

// However many segments there are, three are in memory at most, in the process's and in the system's cache.
TEST(FileStore, BoundsTheMemoryInUse) {
  constexpr int64_t kSegments = 12;
  constexpr int64_t kNumel = 1 << 18;
  const ScratchDirectory directory;
  const std::unique_ptr<StateStore> store = make_file_store({.directory = directory.path()});
  const int64_t segment_bytes = whole_pages(3 * kNumel * static_cast<int64_t>(sizeof(float)));
  struct statfs system {};
  ASSERT_EQ(::statfs(directory.path().c_str(), &system), 0);
  const bool in_memory = system.f_type == TMPFS_MAGIC;
  const auto cached_bytes = [&](const SegmentStates& states) {
    std::vector<unsigned char> pages(static_cast<size_t>(segment_bytes / whole_pages(1)));
    EXPECT_EQ(::mincore(states.exp_avg.data_ptr(), static_cast<size_t>(segment_bytes), pages.data()), 0);
    return whole_pages(1) * std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
  };
  for (int64_t i = 0; i < kSegments; ++i) {
    add_segments(*store, 1, kNumel);
    EXPECT_LE(resident_bytes(directory), 3 * segment_bytes) << "after segment " << i << " was added";
  }
  std::vector<SegmentStates> all;  // where they are in memory
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < kSegments; ++i) {
      const SegmentStates& states = store->take(i);
      if (step == 0) all.push_back(states);
      states.exp_avg.add_(1);
      int64_t cached = 0;
      for (const SegmentStates& each : all) cached += cached_bytes(each);
      EXPECT_GE(resident_bytes(directory), segment_bytes) << "the segment that is in use";
      EXPECT_LE(resident_bytes(directory), 3 * segment_bytes) << "step " << step << ", segment " << i;
      EXPECT_LE(cached, (in_memory ? kSegments : 3) * segment_bytes) << "step " << step << ", segment " << i;
      store->give_back(i);
    }
  }
}

// The thread reads in the order of requests: once a segment has come, so have those that were requested
// before it, by a hint or as the successor of one that is in use.
TEST(FileStore, ReadsAhead) {
  constexpr int64_t kNumel = 1 << 16;
  const ScratchDirectory directory;
  const std::unique_ptr<StateStore> store = make_file_store({.directory = directory.path()});
  const int64_t segment_bytes = whole_pages(3 * kNumel * static_cast<int64_t>(sizeof(float)));
  add_segments(*store, 10, kNumel);
  store->expect(8);
  store->take(0);
  EXPECT_GE(resident_bytes(directory), 2 * segment_bytes) << "8 and 0";
  store->take(4);
  EXPECT_GE(resident_bytes(directory), 4 * segment_bytes) << "8, 0, 1 and 4";
}

TEST(FileStore, LeavesNothingBehind) {
  const ScratchDirectory directory;
  {
    const auto store = make_file_store({.directory = directory.path()});
    add_segments(*store, 3, 1000);
    store->take(1);
    EXPECT_NE(open_file(directory), "");
    EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "the file has no name";
  }
  EXPECT_EQ(open_file(directory), "") << "the file is closed";
  EXPECT_EQ(resident_bytes(directory), 0) << "the file is not mapped";

  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto store = make_file_store({.directory = directory.path()});
    add_segments(*store, 3, 1000);
    store->take(1);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(ready[0]);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "nor does a process that is killed";
}

// The file cannot be lost with its directory.
TEST(FileStore, RanksShareADirectoryAndOutliveIt) {
  auto directory = std::make_unique<ScratchDirectory>();
  const auto make = [&] { return make_file_store({.directory = directory->path(), .rank = 0}); };
  const std::vector<std::unique_ptr<StateStore>> stores = [&] {
    std::vector<std::unique_ptr<StateStore>> two;
    two.push_back(make());
    two.push_back(make());
    return two;
  }();
  directory.reset();
  for (size_t i = 0; i < 2; ++i) add_segments(*stores[i], 3, 1000);
  for (size_t i = 0; i < 2; ++i) {
    stores[i]->take(1).exp_avg.fill_(static_cast<double>(i));
    stores[i]->give_back(1);
  }
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(at::equal(stores[i]->take(1).exp_avg, at::full({1000}, static_cast<double>(i))));
}

TEST(FileStore, ADirectoryThatCannotBeUsedIsAnError) {
  const ScratchDirectory directory;
  const auto error_for = [](const std::string& path) {
    return message_of<OutputError>([&] { make_file_store({.directory = path}); });
  };
  const std::string missing = directory.file("missing"), file = directory.write("file", "");
  EXPECT_EQ(error_for(missing),
            "offload directory " + missing +
                ": no file can be created there: No such file or directory; name an existing directory that "
                "every rank can write to, on a disk with room");
  EXPECT_THAT(error_for(file), HasSubstr("no file can be created there: Not a directory"));
  // Not even root can write there.
  EXPECT_THAT(error_for("/proc/self"), HasSubstr("no file can be created there: "));
}

TEST(FileStore, ADiskWithoutRoomIsAnErrorBeforeTheFirstStep) {
  const ScratchDirectory directory;
  constexpr int64_t kTooMuch = int64_t{1} << 50;
  EXPECT_THAT(
      message_of<OutputError>(
          [&] { make_file_store({.directory = directory.path(), .rank = 3, .total_bytes = kTooMuch}); }),
      AllOf(HasSubstr(directory.path().string() + "/braid-states-rank3-"),
            HasSubstr("no room for this rank's optimizer states: they need 1.00 PiB, of which 0 B are "
                      "reserved, and the disk has "),
            HasSubstr(" free; free some space or offload to another directory")));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

/// No file of this process may grow beyond `bytes` during its lifetime: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : action_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit smaller = {.rlim_cur = bytes, .rlim_max = limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &smaller);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, action_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*action_)(int);
  rlimit limit_{};
};

// The disk fills up between the question for its free space and the reservation: the reservation fails. Once
// space is reserved, a full disk does no harm.
TEST(FileStore, AFailedReservationIsAnErrorAndALaterFullDiskIsNone) {
  const ScratchDirectory directory;
  constexpr int64_t kNumel = 1 << 16;
  const int64_t segment_bytes = whole_pages(3 * kNumel * static_cast<int64_t>(sizeof(float)));
  const auto store = make_file_store({.directory = directory.path()});
  const auto reserved = make_file_store({.directory = directory.path(), .total_bytes = 3 * segment_bytes});
  add_segments(*store, 1, kNumel);
  {
    const FullDisk full(static_cast<rlim_t>(segment_bytes));
    EXPECT_THAT(message_of<OutputError>([&] { add_segments(*store, 1, kNumel); }),
                AllOf(HasSubstr(": 1.50 MiB for this rank's optimizer states cannot be reserved: "),
                      HasSubstr("; free some space or offload to another directory")));
    add_segments(*reserved, 3, kNumel);
    EXPECT_THROW(add_segments(*reserved, 1, kNumel), OutputError);
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::equal(reserved->take(i).exp_avg_sq, at::ones({kNumel})));
    reserved->give_back(i);
  }
}

// Before its segment is used, a truncated file is noticed; the error stays.
TEST(FileStore, ATruncatedFileIsAnError) {
  const ScratchDirectory directory;
  TestParameters parameters(5, at::kBFloat16);
  AdamW adamw(parameters.segments, make_file_store({.directory = directory.path(), .rank = 2}), {});
  parameters.set_gradients(1);
  adamw.step(1e-3, 1.0);
  const std::string path = open_file(directory);
  ASSERT_EQ(::truncate(path.c_str(), whole_pages(1)), 0);
  parameters.set_gradients(2);
  const std::string message = message_of<OutputError>([&] { adamw.step(1e-3, 1.0); });
  EXPECT_THAT(message,
              AllOf(HasSubstr(directory.path().string() + "/braid-states-rank2-"),
                    HasSubstr(": the file of the offloaded optimizer states shrank to 4.00 KiB, and this "
                              "segment's end at "),
                    HasSubstr("; resume from the last checkpoint")));
  parameters.set_gradients(3);
  EXPECT_EQ(message_of<OutputError>([&] { adamw.step(1e-3, 1.0); }), message);
}

// If the file is lost in the middle of an update, the process goes on to an error.
TEST(FileStore, AFileThatIsLostDuringAnUpdateIsAnError) {
  const ScratchDirectory directory;
  const auto store = make_file_store({.directory = directory.path()});
  add_segments(*store, 4, 5000);
  SegmentStates& states = store->take(0);
  states.exp_avg.fill_(2);
  ASSERT_EQ(::truncate(open_file(directory).c_str(), 0), 0);
  states.exp_avg_sq.fill_(3);
  EXPECT_THROW(store->give_back(0), OutputError);
  EXPECT_THROW(store->take(1), OutputError);
  EXPECT_THROW(add_segments(*store, 1, 100), OutputError);
}

}  // namespace
}  // namespace braid::optim
