// What a schedule is made for: how long its parts take, what they keep, and how much a rank may keep.
#pragma once

#include <cstdint>
#include <optional>

#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {

/// Fixed schedules do not look at it; ZBVPP, V-Half, V-Min and auto arrange their actions for these times,
/// and ZBVPP and auto within the limit.
struct Workload {
  Durations durations{};
  Memory memory{};
  /// The most that any rank may keep, in the unit of `memory`.
  std::optional<int64_t> memory_limit{};

  friend bool operator==(const Workload&, const Workload&) = default;
};

}  // namespace braid::schedule
