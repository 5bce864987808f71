// The pass that ends every rank's list with the optimizer step.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// `schedule` with one OPTIMIZER_STEP at the end of every rank's list. Throws ConfigError if it has one
/// already.
Schedule place_optimizer_step(Schedule schedule);

}  // namespace braid::schedule
