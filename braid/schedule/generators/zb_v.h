// ZB-V: the V-shaped schedule that has no bubble if forwards and both halves of backwards take the same time.
#pragma once

#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// The handcrafted order, Placement::kV with 2 chunks per rank. Any m >= 1. With T_F = T_B = T_W and no time
/// for messages the bubble is max(0, 2p-1-m) (F+B+W)/3 of a full rank, and every rank keeps at most p full
/// microbatches. Compute actions only. Throws ConfigError if the shape is not valid or does not have 2
/// chunks. Source: Qi et al. 2023, arXiv:2401.10241, section 6; schedule of the authors for PyTorch, pull
/// request 138444.
Schedule zb_v_by_hand(const PipelineShape& shape);

/// "ZBVPP": the shortest, for the workload's durations, of the handcrafted order, the same order with other
/// places for W, and list schedules, all within the workload's memory limit; without a limit, within the
/// handcrafted order's peak. The handcrafted order if nothing beats it. Throws ConfigError if the shape is
/// not valid or does not have 2 chunks, if the durations or the memory do not match it, or if the limit is
/// below what one microbatch needs on both chunks of a rank; the message says how much that is.
Schedule zbvpp(const PipelineShape& shape, const Workload& workload);

}  // namespace braid::schedule
