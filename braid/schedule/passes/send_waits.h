// The pass that decides when a send's buffer is released.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// `schedule` with one wait for every send, placed where it does not delay the rank and few buffers are kept:
///  - right after the first action that proves the receiver has used the message: it consumes something that
///    the receiver sent after that (so a forward send is waited for at the latest after the backward of its
///    microbatch);
///  - where nothing proves it, as when the pipeline drains, after the second next send to the same rank, or
///    at the end of the step.
/// All before NORM. No placement can deadlock, because each send could block immediately.
/// Throws ConfigError if check rejects `schedule`, if it has waits already, or if messages are still to be
/// inserted.
Schedule insert_send_waits(const Schedule& schedule);

}  // namespace braid::schedule
