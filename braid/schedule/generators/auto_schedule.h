// The best of all other modes and of the searches that fit schedules to times and memory.
#pragma once

#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// The schedule with the least longest_span, then the least step_time, then the least memory, of
///  - every other mode that runs with `shape` within workload.memory_limit,
///  - the same modes' orders, rejected or not, with their weight gradients placed again for the workload (see
///    place_weights); with one chunk per rank, at each of limits_to_search,
///  - with one chunk per rank, memory_limited.
/// So it is never worse than another mode within the limit, and any placement may come out. The name tells
/// its origin: "auto (1F1B)" is 1F1B as it is. With one chunk per rank, the bubble does
/// not grow with the limit at the limits of limits_to_search.
///
/// Compute actions only. A pure function that uses neither clock nor randomness.
/// Throws ConfigError if the shape is not valid, if no mode runs with it, if the workload does not suit it,
/// or if nothing fits the limit (the message gives the smallest sufficient limit).
Schedule auto_schedule(const PipelineShape& shape, const Workload& workload);

}  // namespace braid::schedule
