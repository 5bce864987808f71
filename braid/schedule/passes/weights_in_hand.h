// The pass that gives F and I a W in hand, to run while they wait for their tensor-parallel (mp) group.
#pragma once

#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {

/// The compute actions of `schedule`, in which an F or I also runs the W right before it, of any chunk of its
/// rank, or the W right after it, of a microbatch that has had its I. That is done wherever no action of any
/// rank ends later for it than it would without, and some ends earlier, so a step is never longer:
///  - the W before an action, if the action's input is there before W would end, and the action ends sooner
///    with W behind its exchange than after it;
///  - the W after an action, if the action's output does not come later: W is no longer than the exchange,
///    or no stage needs the output.
/// An F or I without an exchange gets none, and neither does a fused backward, which has its own W. No rank
/// keeps more after any action than before. The same on every rank that is given the same.
/// Throws ConfigError if check rejects `schedule`, if it has messages, and as validate(durations, schedule).
Schedule place_weights_in_hand(Schedule schedule, const Durations& durations);

}  // namespace braid::schedule
