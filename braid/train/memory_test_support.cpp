#include "braid/train/memory_test_support.h"

#include <chrono>
#include <thread>

#include "braid/tensor/memory.h"

namespace braid::train {

int64_t settled_bytes(int64_t before, int64_t expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (true) {
    const int64_t bytes = tensor::memory_stats().allocated_bytes - before;
    if (bytes <= expected || std::chrono::steady_clock::now() > end) return bytes;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace braid::train
