#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "braid/base/error.h"
#include "braid/tensor/cuda_memory.h"

namespace braid::tensor {
namespace {

void require_device(c10::Device device) {
  const int count = c10::cuda::device_count();
  require<ConfigError>(
      device.index() < count, "there is no GPU ", static_cast<int>(device.index()), ": this machine has ",
      count, " that CUDA can use (see nvidia-smi and CUDA_VISIBLE_DEVICES); --device cpu needs none");
}

}  // namespace

MemoryStats cuda_memory_stats(c10::Device device) {
  require_device(device);
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
