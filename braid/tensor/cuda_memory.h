// The CUDA half of memory.h.
#pragma once

#include "braid/tensor/memory.h"

namespace braid::tensor {

/// The functions of memory.h for a CUDA device; a device that does not exist is a ConfigError. In a build
/// without CUDA each throws ConfigError naming BRAID_CUDA.
MemoryStats cuda_memory_stats(c10::Device device);
void cuda_reset_peak_memory_stats(c10::Device device);
void cuda_release_cached_memory(c10::Device device);

}  // namespace braid::tensor
