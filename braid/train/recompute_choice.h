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
/// combinations, the best of those tried. Throws ConfigError if layers do not state what they keep, or, with
/// the least limit, if `limit` is below it.
std::vector<config::Recomputation> least_recomputation(const RunPlan& base, int64_t limit);

/// For a schedule that is made for a limit, and may therefore keep `limit` with less: what ranks recompute to
/// keep `limit` under base.compute and to keep limits above it, the least first, and all that can be
/// recomputed. Ranks that cannot keep a limit recompute all that they can. Throws ConfigError if layers do
/// not state what they keep.
std::vector<std::vector<config::Recomputation>> recomputation_candidates(const RunPlan& base, int64_t limit);

}  // namespace braid::train
