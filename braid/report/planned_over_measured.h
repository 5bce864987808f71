// What a step was planned to be, drawn over what it was.
#pragma once

#include <string>

#include "braid/report/timeline.h"

namespace braid::report {

/// An SVG document as draw_svg's: for each rank a low row with the plan above one with what was measured, on
/// one time axis in s, ms or us; in both the first action starts at 0. Hatched are idle time in the plan and
/// waiting for input in the measurement, from a rank's first action to its last; what is blank between
/// measured actions is neither work nor waiting. Below: step times, their ratio, bubble rates.
/// Throws as validate(Timeline) does, and ConfigError if `planned` is not a simulation of timeline.schedule
/// or there are more than 200 000 actions.
std::string draw_planned_over_measured(const Timeline& timeline, const schedule::Simulation& planned);

}  // namespace braid::report
