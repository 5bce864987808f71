// What a rank's segments take: bytes held, bytes that come and go in a step, and messages to the data ranks.
#pragma once

#include <map>

#include "braid/comm/communicator.h"
#include "braid/cost/layer_cost.h"
#include "braid/mesh/mesh.h"
#include "braid/train/rank_model.h"
#include "braid/train/run_plan.h"

namespace braid::train {

struct SegmentPlan {
  int64_t parameters = 0;  ///< a weight that two layers use counts once
  int64_t tied_numel = 0;  ///< see RankPlan
  PlannedMemory held;      ///< weights, gradients, optimizer states and segments; the rest is 0
  std::map<mesh::Axis, comm::CollectiveTraffic> collectives;
};

/// Of one pipeline rank, whose parameters are laid out as in `layout`, in a step of `plan`, which has
/// everything but its ranks. Local and pure.
SegmentPlan plan_segments(const RunPlan& plan, int32_t rank, const RankLayout& layout,
                          const cost::MicrobatchShape& microbatch);

/// Bytes of segments that come and go, after each of the rank's actions: whole values and gradients in use,
/// and, from the start of a message to its wait, what communicating needs on a CPU.
std::vector<int64_t> segment_bytes(const RunPlan& plan, int32_t rank, const RankLayout& layout,
                                   const cost::MicrobatchShape& microbatch);

}  // namespace braid::train
