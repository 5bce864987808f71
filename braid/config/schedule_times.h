// How long the stages of a pipeline take, as text: given by hand, or as a profile wrote it.
#pragma once

#include <string>
#include <string_view>

#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::config {

/// The durations that `text` gives: schedule::parse_durations' numbers, or file:PATH with what to_json wrote,
/// which must be for shape.stages() stages. Throws ConfigError, which names `called`, if it is neither.
schedule::Durations parse_schedule_times(std::string_view text, const schedule::PipelineShape& shape,
                                         std::string_view called);

/// One JSON object: "stages", a list with "forward", "backward_input", "backward_weight" and, if it has a
/// time of its own, "fused_backward" of each; and "communication". In seconds; numbers read back exactly.
std::string to_json(const schedule::Durations& durations);

}  // namespace braid::config
