// Proof of the actions that move segments among data ranks.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Throws ConfigError, which says where and why, unless on every rank, for each segment of each chunk:
///  - values are complete when F, B or I uses them: after WAIT_GATHER and before RELEASE where every use
///  needs
///    a gather, and gathered after UPDATE and waited for where the update leaves a rank with its part only;
///  - gradients are reduced once they are complete, after each microbatch or the last one, and are not
///  written
///    to in between; over the dp axis after the sharding axis, once a step;
///  - all of that has ended where the norm, a tied weight or the update needs the sums, and at the end.
/// Nothing is required of a schedule without data axes, or of one whose lists do not have these actions yet.
void check_segments(const Schedule& schedule);

}  // namespace braid::schedule
