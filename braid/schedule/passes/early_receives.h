// The pass that posts receives early, so that transfers overlap with computing.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// `schedule` with each receive posted before one more compute action than it was: the transfer then overlaps
/// with that action, at the cost of one more receive buffer. Posting earlier blocks no rank, and each pair
/// keeps its order, so what check proved still holds. A schedule without receives is returned unchanged.
Schedule post_receives_early(const Schedule& schedule);

}  // namespace braid::schedule
