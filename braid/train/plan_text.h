// A run plan for people and programs.
#pragma once

#include <string>
#include <vector>

#include "braid/train/run_plan.h"

namespace braid::train {

/// Lines without newlines: the model, the schedule and its simulated step, and for each rank of the pipeline
/// its layers, memory and messages. Of a run that only evaluates, the model and its layers.
std::vector<std::string> plan_text(const RunPlan& plan);

/// The same as one JSON object on one line, in bytes and counts; "step" has times in the unit of
/// "step.times".
std::string plan_json(const RunPlan& plan);

}  // namespace braid::train
