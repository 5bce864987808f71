// A run plan as a picture.
#pragma once

#include <cstdint>
#include <string>

#include "braid/train/run_plan.h"

namespace braid::train {

/// An SVG document: the ranks of the plan on nodes of `ranks_per_node`, axis by axis, with the messages that
/// a rank sends over each in a step. Throws ConfigError like report::draw_mesh.
std::string draw_plan(const RunPlan& plan, int32_t ranks_per_node);

}  // namespace braid::train
