// The CUDA half of memory.h.
#pragma once

#include "braid/tensor/memory.h"

namespace braid::tensor {

/// As memory_stats and its neighbours, for a CUDA device; a device that is not there is a ConfigError.
/// Without CUDA in the build each throws ConfigError naming BRAID_CUDA.
MemoryStats cuda_memory_stats(c10::Device device);
void cuda_reset_peak_memory_stats(c10::Device device);
void cuda_release_cached_memory(c10::Device device);

}  // namespace braid::tensor
