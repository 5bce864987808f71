// Evaluation: only forwards and their messages.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// The forwards of `microbatches` microbatches over the stages of `placed`, for any placement, with their
/// messages and waits, the gathers and releases of its data axes if they have any, and nothing else.
/// Microbatches go in rounds of as many as there are ranks, each rank taking a round through its chunks in
/// the order of their stages: ranks work concurrently, and few results wait for their turn. Cannot deadlock.
/// Throws ConfigError for an invalid shape or placement.
Schedule forward_only(const Schedule& placed, int32_t microbatches);

}  // namespace braid::schedule
