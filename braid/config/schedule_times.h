// Times of pipeline stages as text: given by hand or written by a profile.
#pragma once

#include <string>
#include <string_view>

#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::config {

/// The durations given by `text`: numbers for schedule::parse_durations, or file:PATH with the output of
/// to_json for shape.stages() stages. Throws ConfigError, naming `option_name`, if it is neither.
schedule::Durations parse_schedule_times(std::string_view text, const schedule::PipelineShape& shape,
                                         std::string_view option_name);

/// One JSON object: "stages", a list with "forward", "backward_input", "backward_weight" and, if timed
/// separately, "fused_backward" of each, and, if there are any, "forward_exchange" and "backward_exchange";
/// and "communication". In seconds; numbers read back exactly.
std::string to_json(const schedule::Durations& durations);

}  // namespace braid::config
