// The part of each rank in a plan: what it holds, and what it sends.
#pragma once

#include <vector>

#include "braid/train/run_plan.h"

namespace braid::train {

/// RunPlan::ranks of a plan that has everything else. Pure and local.
std::vector<RankPlan> plan_ranks(const RunPlan& plan);

}  // namespace braid::train
