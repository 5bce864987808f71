// The schedules by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// The names that generate takes, the simplest schedule first.
std::vector<std::string> schedule_modes();

/// The schedule called `mode`, compute actions only.
/// Throws ConfigError if there is none of that name (the message suggests the nearest), or if `shape` does
/// not suit it.
Schedule generate(std::string_view mode, const PipelineShape& shape);

}  // namespace braid::schedule
