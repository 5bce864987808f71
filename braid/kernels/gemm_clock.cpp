#include "braid/kernels/gemm_clock.h"

namespace braid::kernels {
namespace {

thread_local std::chrono::nanoseconds spent{0};

}  // namespace

std::chrono::nanoseconds gemm_time() { return spent; }

GemmTimer::~GemmTimer() { spent += std::chrono::steady_clock::now() - begin_; }

}  // namespace braid::kernels
