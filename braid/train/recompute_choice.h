// Which decoder layers recompute what, so that a schedule keeps a memory limit.
#pragma once

#include <cstdint>
#include <vector>

#include "braid/train/recomputation.h"
#include "braid/train/run_plan.h"

namespace braid::train {

/// `model`, cut nowhere within a decoder layer.
layers::ModelSpec with_blocks_in_one_stage(layers::ModelSpec model);

/// What each decoder layer of `base` recomputes so that no rank keeps more than `limit` bytes under
/// base.compute, at the least cost in recomputed FLOPs on each rank. `base` recomputes nothing; of its
/// `recompute`, kAuto marks the layers that may. Where a rank's chunks allow more than a million
/// combinations, the best of those tried. `is_kept`, unless null: whether that keeps the limit; if not, ranks
/// that cannot keep it recompute all that they can. Throws ConfigError if layers do not state what they keep,
/// or, if `is_kept` is null, the least limit where `limit` is below it.
std::vector<config::Recomputation> least_recomputation(const RunPlan& base, int64_t limit,
                                                       bool* is_kept = nullptr);

/// least_recomputation, for a schedule that `is_fixed`; for one that is made for a limit, those for `limit`
/// and for limits above, the least first, and all that can be recomputed.
std::vector<std::vector<config::Recomputation>> recomputation_candidates(const RunPlan& base, int64_t limit,
                                                                         bool is_fixed);

}  // namespace braid::train
