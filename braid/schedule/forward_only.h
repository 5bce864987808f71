// Evaluation: forwards and their messages alone.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// The forwards of FThenB with their messages and waits, nothing else: each rank runs its chunks' forwards in
/// ascending order of microbatches. Cannot deadlock: messages flow one way, and every rank takes them in the
/// order in which they were sent. Throws ConfigError for a shape that is none.
Schedule forward_only(const PipelineShape& shape);

}  // namespace braid::schedule
