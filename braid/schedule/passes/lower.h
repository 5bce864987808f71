// From compute actions to what the executor runs: all passes in their order.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

enum class ReceivePosting {
  kJustInTime,  // right before the action that needs it: fewest buffers
  kEarly,       // one compute action earlier: transfers overlap with computing
};

struct LowerOptions {
  ReceivePosting receives = ReceivePosting::kJustInTime;
};

/// `compute` with messages, waits and the optimizer step, proved by check. Throws ConfigError if check
/// refuses it.
Schedule lower(const Schedule& compute, const LowerOptions& options);

}  // namespace braid::schedule
