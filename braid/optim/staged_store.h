// States of a device that are kept in another store, in host memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>

#include "braid/optim/state_store.h"

namespace braid::optim {

enum class HostMemory {
  kPageable,  ///< a copy ends before the host continues
  kPinned,    ///< copies run on streams of their own
};

struct StagedStoreOptions {
  at::Device device;  ///< that computes
  HostMemory host;    ///< of the states in the other store
};

/// What the states of a segment take.
struct StatesSize {
  int64_t numel = 0;
  int64_t element_bytes = 4;
  bool moves_master = false;  ///< the master is offloaded, not only the moments

  int64_t tensor_bytes() const { return numel * element_bytes; }
  /// The same, aligned as the allocator aligns tensors.
  int64_t padded_bytes() const;
  int64_t bytes() const { return padded_bytes() * (moves_master ? 3 : 2); }
};

/// Bytes on the device of a store that keeps `segments` in `host`.
int64_t staged_bytes(std::span<const StatesSize> segments, HostMemory host);

/// Keeps the states in `host`, a store in host memory from which several segments can be taken at a time, and
/// copies them to and from the device: three segments are there at a time if the memory is pinned, else one.
/// One segment can be taken from this store at a time. Throws ConfigError as make_pinned_store does.
std::unique_ptr<StateStore> make_staged_store(const StagedStoreOptions& options,
                                              std::unique_ptr<StateStore> host);

}  // namespace braid::optim
