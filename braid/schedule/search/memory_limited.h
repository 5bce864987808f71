// Zero bubble as far as memory allows: fits the forwards in flight and the times of weight gradients to the
// limit.
#pragma once

#include <cstdint>
#include <vector>

#include "braid/schedule/memory.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// The best schedule with one chunk per rank that the search finds: the least longest_span within
/// workload.memory_limit, then the least step_time, then the least memory. Every rank runs some forwards,
/// then one input gradient and one forward in turn; how many forwards depends on when the first gradient can
/// arrive and on the limit, and place_weights puts W in between. Stages may differ in time and memory; any
/// m >= 1. The bubble does not grow with the limit at the limits of limits_to_search.
///
/// With p and 2p microbatches as the limit this is ZB-1p and ZB-2p of the paper, with bubbles no larger than
/// its. Without a limit a rank keeps no more than the highest of limits_to_search.
/// Compute actions only. A pure function that uses neither clock nor randomness.
/// Throws ConfigError if the shape is not valid or has more than one chunk per rank, if the workload does not
/// match it, or if the limit has no room for one microbatch at a time (the message says what is needed).
/// Source: Qi et al. 2023, arXiv:2401.10241, section 3.1.
Schedule memory_limited(const PipelineShape& shape, const Workload& workload);

/// The least limit that memory_limited accepts: one microbatch at a time on the rank that keeps most of it.
/// Throws ConfigError if `memory` does not suit the shape. Not checked: the shape is valid, with one chunk.
int64_t least_of_memory_limited(const PipelineShape& shape, const Memory& memory);

/// The limits within which schedules are searched for, ascending: at most kLimitSteps multiples of what a
/// rank keeps of one microbatch, that do not depend on workload.memory_limit but for ending there, and
/// itself. None lies above the point where memory stops paying: there a rank keeps all the microbatches that
/// it can run until the first gradient comes back, and p-1 more. Not checked: the shape is valid and
/// the workload suits it. Source of that point: Qi et al. 2023, arXiv:2401.10241, section 3.1.
std::vector<int64_t> limits_to_search(const PipelineShape& shape, const Workload& workload);

inline constexpr int64_t kLimitSteps = 8;

}  // namespace braid::schedule
