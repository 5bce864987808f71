#include "braid/schedule/passes/lower.h"

#include <utility>

#include "braid/schedule/check.h"
#include "braid/schedule/passes/communication.h"
#include "braid/schedule/passes/early_receives.h"
#include "braid/schedule/passes/optimizer_step.h"
#include "braid/schedule/passes/send_waits.h"

namespace braid::schedule {

Schedule lower(const Schedule& compute, const LowerOptions& options) {
  Schedule schedule = insert_communication(place_optimizer_step(compute));
  if (options.receives == ReceivePosting::kEarly) schedule = post_receives_early(schedule);
  schedule = insert_send_waits(schedule);
  check(schedule);
  return schedule;
}

}  // namespace braid::schedule
