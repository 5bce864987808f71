// The pass that inserts sends and receives.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// `schedule` with a send after each compute action whose result another rank needs, and a receive before the
/// action that needs it. Neighbouring stages on one rank pass tensors without a message.
///
/// Receives are posted as late as is safe: right before their consumer, or earlier if one of these requires
/// it:
///  - between two ranks, receives come in the order of the sends (NCCL matches by order, not by tag);
///  - all ranks could go on even if every send blocked until its receive is posted.
/// Both hold by construction: all ranks are run together under that very rule, and where some block one
/// another in a cycle, one of them posts the receive that the rank before it waits for. Pure, so that all
/// ranks compute the same.
///
/// Throws ConfigError if check rejects `schedule`, or if it has messages already.
Schedule insert_communication(const Schedule& schedule);

}  // namespace braid::schedule
