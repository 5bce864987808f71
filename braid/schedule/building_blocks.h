// V-Half and V-Min: V-shaped schedules that keep about a half and a third of what 1F1B keeps.
#pragma once

#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// Placement::kV with 2 chunks per rank, for the workload's durations; its memory does not count. Any m >= 1.
Schedule v_half(const PipelineShape& shape, const Workload& workload);
Schedule v_min(const PipelineShape& shape, const Workload& workload);

}  // namespace braid::schedule
