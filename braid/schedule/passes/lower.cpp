#include "braid/schedule/passes/lower.h"

#include <utility>

#include "braid/schedule/check.h"
#include "braid/schedule/passes/communication.h"
#include "braid/schedule/passes/early_receives.h"
#include "braid/schedule/passes/segments.h"
#include "braid/schedule/passes/send_waits.h"
#include "braid/schedule/passes/step_end.h"

namespace braid::schedule {

Schedule lower(const Schedule& compute, const LowerOptions& options) {
  Schedule schedule = compute;
  schedule.step_end = options.step_end;
  schedule.data = options.data;
  schedule = insert_communication(schedule);
  if (options.receives == ReceivePosting::kEarly) schedule = post_receives_early(schedule);
  schedule = place_segments(insert_send_waits(place_step_end(std::move(schedule))));
  check(schedule);
  return schedule;
}

}  // namespace braid::schedule
