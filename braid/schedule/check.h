// Proves that a schedule can run, or reports why it cannot, before anything starts.
#pragma once

#include <cstdint>
#include <vector>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// What a schedule costs, apart from time.
struct CheckReport {
  /// Per rank: the most (chunk, microbatch) pairs between their forward and the end of their weight gradient.
  std::vector<int32_t> peak_live_activations;
  /// Tensors that cross ranks in one step.
  int64_t messages = 0;
  /// Per rank: the most sends that are started and not yet waited for. 0 in a schedule without sends; a send
  /// without a wait counts to the end.
  std::vector<int32_t> peak_outstanding_sends;

  friend bool operator==(const CheckReport&, const CheckReport&) = default;
};

/// Proves, for a schedule after any number of passes:
///  - every chunk runs F, and either B or I and W, once for every microbatch, F before B or I, I before W;
///  - a W in hand comes after the I of its microbatch, not within it, and is that microbatch's only W;
///  - each chunk's weight gradients (B or W) come in ascending order of microbatches: sums of floating-point
///    numbers depend on their order, and that one makes losses the same, bit for bit, for every schedule;
///  - the last stage's forwards come in ascending order of microbatches for the same reason: a head makes the
///    gradients of its own weights there;
///  - if any rank's list ends the step, every rank's does as step_end says: one REDUCE_TIED and its wait for
///    each pair of tied stages that the rank has a part in, in the same order on all ranks, after all
///    messages and after what completes the gradient; one NORM after everything that it counts; one WAIT_NORM
///    after that if the norm scales the update, else none; one UPDATE of each chunk after everything that the
///    chunk computes, its WAIT_REDUCE_TIED and the WAIT_NORM;
///  - if it has messages: each tensor that crosses ranks is sent once after it was made and received once
///    before it is used, and between two ranks all sends and receives come in the same order; if it has
///    waits: one for each send, after it;
///  - all ranks reach their end even if every send blocks until the receiver has posted the receive.
/// Throws ConfigError that names the schedule, rank, position, action and reason.
CheckReport check(const Schedule& schedule);

/// See CheckReport; needs only a valid schedule.
std::vector<int32_t> peak_live_activations(const Schedule& schedule);

}  // namespace braid::schedule
