#include "braid/base/error.h"
#include "braid/tensor/cuda_memory.h"

namespace braid::tensor {
namespace {

[[noreturn]] void throw_without_cuda() {
  throw ConfigError("this build has no CUDA: configure with -DBRAID_CUDA=ON, or run with --device cpu");
}

}  // namespace

MemoryStats cuda_memory_stats(c10::Device) { throw_without_cuda(); }
void cuda_reset_peak_memory_stats(c10::Device) { throw_without_cuda(); }
void cuda_release_cached_memory(c10::Device) { throw_without_cuda(); }

}  // namespace braid::tensor
