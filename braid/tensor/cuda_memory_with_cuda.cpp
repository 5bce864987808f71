#include <c10/cuda/CUDACachingAllocator.h>

#include "braid/tensor/cuda_memory.h"

namespace braid::tensor {

MemoryStats cuda_memory_stats(c10::Device device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated_bytes = stats.allocated_bytes[kAll].current,
          .max_allocated_bytes = stats.allocated_bytes[kAll].peak,
          .reserved_bytes = stats.reserved_bytes[kAll].current,
          .max_reserved_bytes = stats.reserved_bytes[kAll].peak};
}

void cuda_reset_peak_memory_stats(c10::Device device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

void cuda_release_cached_memory(c10::Device) { c10::cuda::CUDACachingAllocator::emptyCache(); }

}  // namespace braid::tensor
