#include "braid/tensor/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/tensor/cuda_memory.h"

namespace braid::tensor {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kSmallLimitBytes = size_t{1} << 20;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

/// Occupies the kAllocationUnitBytes before a tensor's first byte.
struct Header {
  std::shared_ptr<Arena> arena;
  size_t block_bytes;  ///< the whole mapping or heap block, header included
  size_t counted_bytes;
};
static_assert(sizeof(Header) <= static_cast<size_t>(kAllocationUnitBytes));

/// A size shared by many requests, so that a freed block fits the next one: eight steps per power of two up
/// to 1 MiB, then whole huge pages.
size_t block_size(size_t bytes) {
  bytes += kAllocationUnitBytes;
  if (bytes > kSmallLimitBytes) return round_up(bytes, kHugePageBytes);
  size_t step = kAllocationUnitBytes;
  while (step * 16 < bytes) step *= 2;
  return round_up(bytes, step);
}

void* map_block(size_t bytes) {
  if (bytes <= kSmallLimitBytes)
    return std::aligned_alloc(kAllocationUnitBytes, round_up(bytes, kAllocationUnitBytes));
  // Mapped with room to start on a huge page; the excess on either side is unmapped.
  char* base = static_cast<char*>(
      mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) return nullptr;
  char* start = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(base), kHugePageBytes));
  if (start != base) munmap(base, static_cast<size_t>(start - base));
  const auto tail = static_cast<size_t>(base + kHugePageBytes - start);
  if (tail > 0) munmap(start + bytes, tail);
  madvise(start, bytes, MADV_HUGEPAGE);
  return start;
}

void unmap_block(void* block, size_t bytes) {
  if (bytes <= kSmallLimitBytes) {
    std::free(block);
  } else {
    munmap(block, bytes);
  }
}

}  // namespace

/// Free blocks by size, and the counts. Shared by the tensors allocated from it.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  ~Arena() { release_cached(); }

  /// Throws OutOfMemoryError.
  void* take(size_t bytes) {
    const size_t wanted = block_size(bytes);
    const size_t counted = round_up(bytes, kAllocationUnitBytes);
    const auto [block, got] = take_block(wanted, static_cast<int64_t>(counted));
    require<OutOfMemoryError>(block != nullptr, "a tensor of ", bytes_text(wanted), " does not fit beside ",
                              bytes_text(static_cast<uint64_t>(stats().reserved_bytes)), " of other tensors");
    new (block) Header{shared_from_this(), got, counted};
    return static_cast<char*>(block) + kAllocationUnitBytes;
  }

  static void give_back(void* data) {
    if (data == nullptr) return;
    void* block = static_cast<char*>(data) - kAllocationUnitBytes;
    auto* header = static_cast<Header*>(block);
    const std::shared_ptr<Arena> arena = std::move(header->arena);  // outlives the block it owned
    const size_t block_bytes = header->block_bytes;
    const auto counted = static_cast<int64_t>(header->counted_bytes);
    header->~Header();
    const std::lock_guard lock(arena->mutex_);
    arena->stats_.allocated_bytes -= counted;
    arena->free_.emplace(block_bytes, block);
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peaks() {
    const std::lock_guard lock(mutex_);
    stats_.max_allocated_bytes = stats_.allocated_bytes;
    stats_.max_reserved_bytes = stats_.reserved_bytes;
  }

  void release_cached() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

 private:
  /// A free block of at least `wanted` bytes and at most a quarter more; else a new one; else, if memory is
  /// short, a new one after releasing the free ones.
  std::pair<void*, size_t> take_block(size_t wanted, int64_t counted) {
    const std::lock_guard lock(mutex_);
    void* block = nullptr;
    size_t got = wanted;
    const auto fit = free_.lower_bound(wanted);
    if (fit != free_.end() && fit->first <= wanted + wanted / 4) {
      got = fit->first;
      block = fit->second;
      free_.erase(fit);
    } else {
      block = map_block(wanted);
      if (block == nullptr) {
        release_locked();
        block = map_block(wanted);
      }
      if (block == nullptr) return {nullptr, 0};
      stats_.reserved_bytes += static_cast<int64_t>(wanted);
      stats_.max_reserved_bytes = std::max(stats_.max_reserved_bytes, stats_.reserved_bytes);
    }
    stats_.allocated_bytes += counted;
    stats_.max_allocated_bytes = std::max(stats_.max_allocated_bytes, stats_.allocated_bytes);
    return {block, got};
  }

  void release_locked() {
    for (const auto& [bytes, block] : free_) {
      unmap_block(block, bytes);
      stats_.reserved_bytes -= static_cast<int64_t>(bytes);
    }
    free_.clear();
  }

  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  MemoryStats stats_;
};

namespace {

thread_local std::shared_ptr<Arena> bound_arena;  // of the innermost ArenaScope

/// The interface to c10. A single object, as c10 keeps one pointer per device type.
class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, &Arena::give_back, device};
    void* data = current().take(bytes);
    return {data, data, &Arena::give_back, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Arena::give_back; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }

  Arena& current() { return bound_arena ? *bound_arena : *process_arena_; }

 private:
  std::shared_ptr<Arena> process_arena_ = std::make_shared<Arena>();
};

/// Never destroyed: tensors of static lifetime may be freed after main.
CpuAllocator& cpu_allocator() {
  static auto* allocator = new CpuAllocator;
  return *allocator;
}

}  // namespace

void install_cpu_allocator() {
  static const bool kInstalled = [] {
    c10::SetCPUAllocator(&cpu_allocator(), /*priority=*/100);
    return true;
  }();
  (void)kInstalled;
}

ArenaScope::ArenaScope() : arena_(std::make_shared<Arena>()), outer_(bound_arena) { bound_arena = arena_; }
ArenaScope::~ArenaScope() { bound_arena = outer_; }

MemoryStats memory_stats(c10::Device device) {
  return device.is_cuda() ? cuda_memory_stats(device) : cpu_allocator().current().stats();
}

void reset_peak_memory_stats(c10::Device device) {
  if (device.is_cuda()) {
    cuda_reset_peak_memory_stats(device);
  } else {
    cpu_allocator().current().reset_peaks();
  }
}

void release_cached_memory(c10::Device device) {
  if (device.is_cuda()) {
    cuda_release_cached_memory(device);
  } else {
    cpu_allocator().current().release_cached();
  }
}

}  // namespace braid::tensor
