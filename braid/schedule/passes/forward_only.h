// Evaluation: forwards and their messages alone.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// The forwards of `microbatches` microbatches over the stages of `placed`, wherever they are, with their
/// messages and waits, nothing else. Microbatches go in rounds of as many as there are ranks, each rank
/// taking a round through its chunks in the order of their stages: ranks work at the same time, and few
/// results wait for their turn. Cannot deadlock. Throws ConfigError for a shape or placement that is none.
Schedule forward_only(const Schedule& placed, int32_t microbatches);

}  // namespace braid::schedule
