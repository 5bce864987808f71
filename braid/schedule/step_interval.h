// How often a schedule can be run when its steps follow one another.
#pragma once

#include "braid/schedule/simulate.h"

namespace braid::schedule {

/// The time from one step to the next in the long run, where every rank begins its list again as soon as it
/// has ended it, and actions and messages take `durations` as in simulate. Where the norm scales the update,
/// all ranks wait for one another once a step; where it is only reported, a rank that ends early begins
/// early, and what the ranks' starts differ by costs nothing.
///
/// Exact but for the rounding of sums: the largest mean over the cycles of what waits for what. Takes a few
/// simulations. Throws as simulate does.
Seconds step_interval(const Schedule& schedule, const Durations& durations);

}  // namespace braid::schedule
