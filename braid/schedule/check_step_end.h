// The part of check that proves the end of a step.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Proves what check says of the end of a step, apart from deadlocks. Throws as it does. Not checked: the
/// schedule is valid, and its compute actions are complete.
void check_step_end(const Schedule& schedule);

}  // namespace braid::schedule
