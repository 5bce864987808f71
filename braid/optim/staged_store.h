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

/// Bytes on the device of a store that keeps `segments` in `host`.
int64_t staged_bytes(std::span<const StatesSize> segments, HostMemory host);

/// Keeps the states in `host`, a store in host memory from which several segments can be taken at a time, and
/// copies them to and from the device: three segments are there at a time if the memory is pinned, else one.
/// One segment can be taken from this store at a time. Throws ConfigError as make_pinned_store does.
std::unique_ptr<StateStore> make_staged_store(const StagedStoreOptions& options,
                                              std::unique_ptr<StateStore> host);

}  // namespace braid::optim
