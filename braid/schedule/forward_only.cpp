#include "braid/schedule/forward_only.h"

#include <algorithm>

#include "braid/schedule/generate.h"
#include "braid/schedule/lower.h"

namespace braid::schedule {

Schedule forward_only(const PipelineShape& shape) {
  Schedule schedule = lower(generate("FThenB", shape), {});
  schedule.name = "forward only";
  for (auto& actions : schedule.ranks) {
    std::erase_if(actions, [](const Action& action) {
      return action.op != Op::kForward && action.op != Op::kSendForward && action.op != Op::kRecvForward &&
             action.op != Op::kWaitSendForward;
    });
  }
  return schedule;
}

}  // namespace braid::schedule
