// The placement of stages in a V, from which the V-shaped schedules start.
#pragma once

#include <string>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// A schedule called `name` with 2 chunks per rank in a V and no lists yet: chunk 0 on the way from the first
/// rank to the last, chunk 1 on the way back. Throws ConfigError if the shape is not valid or has another
/// number of chunks.
Schedule v_schedule(std::string name, const PipelineShape& shape);

}  // namespace braid::schedule
