// How long the stages of a plan take.
#pragma once

#include "braid/train/run_plan.h"

namespace braid::train {

/// The plan's strategy's durations, or else `measured`, or else times in proportion to FLOPs; which of them
/// goes to `source`; with mp > 1, if not given, with assumed exchanges. The plan has its strategy, its model
/// and its cut. Throws ConfigError if a kind of layer
/// was not measured.
schedule::Durations durations_of(const RunPlan& plan, const PartTimes& measured, TimeSource& source);

}  // namespace braid::train
