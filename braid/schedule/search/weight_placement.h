// Where the weight gradients of a schedule go: into the waits of its ranks, as late as memory allows.
#pragma once

#include <cstdint>
#include <optional>

#include "braid/schedule/memory.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// The least limit within which place_weights finds a place for every weight gradient of `compute`.
/// Throws as peak_memory does.
int64_t least_limit(const Schedule& compute, const Memory& memory);

/// What `compute` keeps at most if all its input gradients are split from their weight gradients, and those
/// come last: above that, a limit only leaves room for forwards that place_weights moves. Throws as
/// peak_memory does.
int64_t most_kept(const Schedule& compute, const Memory& memory);

/// `compute` with its weight gradients placed again, and with some ranks' forwards one input gradient earlier
/// or later where that helps, for the least longest_span, then step_time, then peak memory that the search
/// finds; nothing if they have no place within workload.memory_limit. Any number of chunks and any placement.
///
/// Every B is taken as I and W, so that the stage before need not wait for the weights. A rank runs W, the
/// oldest first and each chunk's in ascending order,
///  - before an action that memory has no room for otherwise;
///  - as long as all of it fits before the input of the next action arrives;
///  - once more in what is left of such a wait, unless that delays more than it saves. Which waits these are
///    is searched for, per rank and then along the critical path;
///  - after everything else.
/// I and W become one B again where memory has no room for what lies between them, and on the first stage,
/// where no one waits for I.
///
/// A pure function that uses neither clock nor randomness. It tries about a dozen ways to place them per
/// rank, fewer if they would take more than kPlacementWork actions together. Not checked: `compute` passes
/// check and has no messages. Throws as simulate and peak_memory do. Source: the rules are those of Qi et al.
/// 2023, arXiv:2401.10241, section 3.1; the search is braid's own.
std::optional<Schedule> place_weights(const Schedule& compute, const Workload& workload);

inline constexpr int64_t kPlacementWork = 4'000'000;

}  // namespace braid::schedule
