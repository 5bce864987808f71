// Device memory, counted as torch.cuda counts it: what tensors hold now, what is reserved from the system,
// and the peaks of both.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace braid::tensor {

struct MemoryStats {
  int64_t allocated_bytes = 0;      ///< held by live tensors, each rounded up to kAllocationUnitBytes
  int64_t max_allocated_bytes = 0;  ///< the largest allocated_bytes since the last reset
  int64_t reserved_bytes = 0;       ///< taken from the system: live blocks and cached free ones
  int64_t max_reserved_bytes = 0;   ///< the largest reserved_bytes since the last reset
  bool operator==(const MemoryStats&) const = default;
};

/// CPU tensors start on, and are counted in, multiples of this.
inline constexpr int64_t kAllocationUnitBytes = 64;

class Arena;

/// Makes a caching, counting allocator provide every CPU tensor of this process. Freed blocks stay mapped for
/// the next tensor of about the same size, so that training steps after the first cause no page faults. Call
/// before the first tensor is created; a second call does nothing. c10 has one CPU allocator per process,
/// which is why this is not an object.
void install_cpu_allocator();

/// During its lifetime, CPU tensors created by this thread are counted separately, in an arena of their own.
/// Ranks that are threads of one process each hold one. A tensor may outlive the scope and may be freed by
/// any thread; its bytes go back to the arena they came from.
class ArenaScope {
 public:
  ArenaScope();
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Arena> outer_;
};

/// The counts of `device`: for the CPU those of the calling thread's arena, for CUDA those of libtorch's
/// caching allocator. All zero for the CPU before install_cpu_allocator.
MemoryStats memory_stats(c10::Device device = c10::Device(c10::kCPU));

/// Sets both peaks to the current values.
void reset_peak_memory_stats(c10::Device device = c10::Device(c10::kCPU));

/// Gives cached free blocks of the calling thread's arena (CPU) or of the device back to the system.
void release_cached_memory(c10::Device device = c10::Device(c10::kCPU));

}  // namespace braid::tensor
