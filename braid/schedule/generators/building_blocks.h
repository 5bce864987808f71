// V-Half and V-Min: V-shaped schedules that keep about a half and a third of what 1F1B keeps.
#pragma once

#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// Both are built as in the source: the actions of one microbatch, repeated on every rank with a period of
/// six slots, settle what each rank may keep; then every action moves to the earliest place that its data and
/// these limits allow, for the workload's durations. Its memory and limit do not count. Placement::kV with 2
/// chunks per rank, any m >= 1, compute actions only. A rank keeps at most floor((p+2)/2) (V-Half) or
/// floor((p+4)/3) (V-Min) full microbatches, whatever m is. With
/// T_F = T_B = T_W and no time for messages the bubble is at most, in forwards of a full rank, for m >= 2p
/// and p > 2 (there is none for p <= 2):
///  - V-Half: (3p-4)/2 for odd p, (3p-7)/2 for even p;
///  - V-Min: (4p-7)/2 where 3 divides p, else (4p-5)/2;
/// for fewer microbatches the higher of that, (2p-1-m)/2 and (4p-1-4m)/2. With uneven times V-Min's bubble
/// grows with m. Throws ConfigError if the shape is not valid or does not have 2 chunks, or if the durations
/// do not suit it. Source: Qi et al. 2024, arXiv:2405.15362, section 3 (building blocks), V-Min and V-Half.
Schedule v_half(const PipelineShape& shape, const Workload& workload);
Schedule v_min(const PipelineShape& shape, const Workload& workload);

}  // namespace braid::schedule
