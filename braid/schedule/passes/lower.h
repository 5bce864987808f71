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
  StepEnd step_end{};
  DataAxes data{};
};

/// `compute` with messages, waits, the end of the step and what data ranks do together, proved by check. An
/// end of the step that its lists already contain stays where it is. Throws ConfigError if check rejects it.
Schedule lower(const Schedule& compute, const LowerOptions& options);

}  // namespace braid::schedule
