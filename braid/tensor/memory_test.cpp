#include "braid/tensor/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "braid/base/error.h"

namespace braid::tensor {
namespace {

class Memory : public testing::Test {
 protected:
  Memory() { install_cpu_allocator(); }
};

int64_t rounded(int64_t bytes) {
  return (bytes + kAllocationUnitBytes - 1) / kAllocationUnitBytes * kAllocationUnitBytes;
}

TEST_F(Memory, CountsLiveBytesAndTheirPeakForEverySize) {
  const ArenaScope scope;
  for (int64_t bytes : {1, 63, 64, 65, 1000, 4096, 1 << 20, (1 << 20) + 1, 5 << 20}) {
    reset_peak_memory_stats();
    {
      const at::Tensor a = at::empty({bytes}, at::kByte);
      EXPECT_EQ(memory_stats().allocated_bytes, rounded(bytes));
      {
        const at::Tensor b = at::empty({2 * bytes}, at::kByte);
        EXPECT_EQ(memory_stats().allocated_bytes, rounded(bytes) + rounded(2 * bytes));
      }
      EXPECT_EQ(memory_stats().allocated_bytes, rounded(bytes));
    }
    EXPECT_EQ(memory_stats().allocated_bytes, 0);
    EXPECT_EQ(memory_stats().max_allocated_bytes, rounded(bytes) + rounded(2 * bytes));
  }
}

TEST_F(Memory, AFreedBlockServesTheNextTensorOfItsSize) {
  const ArenaScope scope;
  for (int64_t bytes : {100, 50000, 3 << 20}) {
    { const at::Tensor a = at::empty({bytes}, at::kByte); }
    const int64_t reserved = memory_stats().reserved_bytes;
    EXPECT_GE(reserved, bytes);
    for (int i = 0; i < 10; ++i) const at::Tensor a = at::empty({bytes}, at::kByte);
    EXPECT_EQ(memory_stats().reserved_bytes, reserved);
  }
  release_cached_memory();
  EXPECT_EQ(memory_stats().reserved_bytes, 0);
}

TEST_F(Memory, ReservedIsAtMostAnEighthAndAPageAboveTheRequest) {
  for (int64_t bytes = 1; bytes < (64 << 20); bytes = bytes * 5 / 4 + 1) {
    const ArenaScope scope;
    const at::Tensor a = at::empty({bytes}, at::kByte);
    const int64_t slack = bytes <= (1 << 20) ? bytes / 8 + 3 * kAllocationUnitBytes : int64_t{2} << 20;
    EXPECT_LE(memory_stats().reserved_bytes, bytes + slack) << bytes;
  }
}

TEST_F(Memory, ThreadsWithScopesAreCountedSeparatelyAndTensorsMayCross) {
  const ArenaScope scope;
  at::Tensor crossing;
  MemoryStats inside;
  std::thread([&] {
    const ArenaScope other;
    crossing = at::empty({1 << 16}, at::kByte);
    inside = memory_stats();
  }).join();
  EXPECT_EQ(inside.allocated_bytes, 1 << 16);
  EXPECT_EQ(memory_stats().allocated_bytes, 0);
  crossing.fill_(3);  // the arena it came from lives on
  EXPECT_EQ(crossing[77].item<int>(), 3);
  crossing.reset();
  EXPECT_EQ(memory_stats().allocated_bytes, 0);
}

TEST_F(Memory, ManyThreadsLeaveNothingBehind) {
  const ArenaScope scope;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const ArenaScope own;
      std::vector<at::Tensor> held;
      for (int i = 0; i < 500; ++i) {
        held.push_back(at::full({(i * 37 + t) % 5000 + 1}, i % 100, at::kByte));
        if (i % 3 == 0) held.erase(held.begin() + static_cast<long>(held.size() / 2));
      }
      held.clear();
      EXPECT_EQ(memory_stats().allocated_bytes, 0);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Memory, AnImpossibleRequestSaysHowMuch) {
  const ArenaScope scope;
  try {
    at::empty({int64_t{1} << 55}, at::kByte);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("a tensor of 32.00 PiB does not fit"), std::string::npos)
        << error.what();
  }
}

#ifndef BRAID_CUDA
TEST_F(Memory, CudaIsRejectedByNameIfItIsNotBuilt) {
  EXPECT_THROW(memory_stats(c10::Device(c10::kCUDA, 0)), std::runtime_error);
}
#endif

}  // namespace
}  // namespace braid::tensor
