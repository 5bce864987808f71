#include "braid/base/error.h"
#include "braid/tensor/cuda_memory.h"

namespace braid::tensor {
namespace {

[[noreturn]] void refuse() {
  throw ConfigError("this build has no CUDA: configure with -DBRAID_CUDA=ON, or run with --device cpu");
}

}  // namespace

MemoryStats cuda_memory_stats(c10::Device) { refuse(); }
void cuda_reset_peak_memory_stats(c10::Device) { refuse(); }
void cuda_release_cached_memory(c10::Device) { refuse(); }

}  // namespace braid::tensor
