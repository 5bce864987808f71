// Inserts what data ranks do together: gathers, releases and reductions of segments.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Cuts compute actions and updates into those of segments where that lets messages overlap with computing,
/// and inserts the actions that schedule.data asks for. Unchanged where both data axes are off.
///  - A segment's gradients are reduced as soon as its last weight gradient is there (of the step, or of each
///    microbatch), and over dp as soon as that is done and the next segment's reduction begins.
///  - With values gathered before use, each gather starts before the computing that precedes its use on the
///    rank; what the next use does not need is released.
///  - After an update each segment's gather runs while the next segment is updated.
/// `schedule` is complete otherwise: with messages and, if it trains, the end of the step.
Schedule place_segments(Schedule schedule);

}  // namespace braid::schedule
