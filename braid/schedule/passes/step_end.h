// The pass that ends every rank's list with what turns the step's gradients into new weights.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// `schedule` with the actions that its step_end requires, on each rank as early as their inputs permit, but
/// never where they would delay another rank:
///  - REDUCE_TIED after the last weight gradient of its chunk, or its last forward if that completes the
///    gradient, and after the rank's last send and receive, in the order of step_end.tied. It uses the same
///    connections as the messages of the step, and NCCL matches a connection's messages by order alone. A
///    pair on one rank has one, at the first stage's chunk.
///  - NORM after the rank's last weight gradient and, where the rank holds the first stage of a pair, which
///    is where the weight counts, after WAIT_REDUCE_TIED. The other rank does not need the sum for it.
///  - WAIT_NORM after that, only if the norm scales the update.
///  - UPDATE of each chunk after WAIT_NORM, and of a tied chunk after its WAIT_REDUCE_TIED. If the norm is
///    only reported, a chunk that is not tied may be updated sooner, while the rank would wait for the rest
///    of its work: once its weight gradients are complete and the rank has nothing left to start that others
///    need. Waits for sends come before NORM: see insert_send_waits.
///
/// A schedule that has such actions is returned unchanged. Messages must have been inserted.
Schedule place_step_end(Schedule schedule);

}  // namespace braid::schedule
