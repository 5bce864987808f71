// The time that a thread has spent in matrix products.
#pragma once

#include <chrono>

namespace braid::kernels {

/// Time that the calling thread has spent in this folder's matrix products since it started: only grows, like
/// a processor-time clock; use differences. On a GPU it is the time to enqueue them.
std::chrono::nanoseconds gemm_time();

/// Adds its own lifetime to the calling thread's gemm_time.
class GemmTimer {
 public:
  GemmTimer() : begin_(std::chrono::steady_clock::now()) {}
  ~GemmTimer();
  GemmTimer(const GemmTimer&) = delete;
  GemmTimer& operator=(const GemmTimer&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace braid::kernels
