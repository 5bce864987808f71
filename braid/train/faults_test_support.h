// For tests: ranks as processes, one of which fails at a given action, and what the others report.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "braid/schedule/passes/lower.h"
#include "braid/schedule/schedule.h"

namespace braid::train {

enum class Fault {
  kKill,   // the process ends there and then
  kStop,   // it is stopped, and resumed once all others have ended
  kSleep,  // its main thread sleeps until then
};

/// What befalls whom, and where.
struct FaultCase {
  schedule::Schedule compute;
  schedule::ReceivePosting receives = schedule::ReceivePosting::kJustInTime;
  int64_t message_numel = 1;
  Fault fault = Fault::kKill;
  int32_t victim = 0;
  schedule::Op op = schedule::Op::kForward;  ///< when the victim comes to one of these,
  bool midway = false;                       ///< the middle one of its step rather than the first
};

std::ostream& operator<<(std::ostream& out, const FaultCase& c);

/// The ranks of `schedule` that have such an action once messages are in.
std::vector<int32_t> ranks_with(const schedule::Schedule& compute, schedule::Op op);

/// Runs the cases, some at a time, and expects of each that all ranks end soon: a killed peer is noticed long
/// before the timeout, one that is stopped or asleep at the timeout. Each rank must tell in a CommError for
/// which action it waited, and that it waited for its neighbour on the victim's side (or for the barrier, if
/// it had come to the end of its list). A victim that lives on must end the same way. The ranks of a
/// schedule must talk to their neighbours only.
void expect_all_end(const std::vector<FaultCase>& cases);

}  // namespace braid::train
