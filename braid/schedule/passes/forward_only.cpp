#include "braid/schedule/passes/forward_only.h"

#include <algorithm>
#include <utility>

#include "braid/schedule/passes/lower.h"
#include "braid/schedule/passes/segments.h"

namespace braid::schedule {

Schedule forward_only(const Schedule& placed, int32_t microbatches) {
  Schedule schedule = {
      .name = "forward only", .shape = placed.shape, .placement = placed.placement, .table = placed.table};
  schedule.shape.microbatches = microbatches;
  schedule.ranks.resize(placed.ranks.size());
  validate(schedule);
  const auto append = [&](Op op, int32_t stage, int32_t microbatch) {
    const Place place = place_of(schedule, stage);
    schedule.ranks[static_cast<size_t>(place.rank)].push_back({op, place.chunk, microbatch});
  };
  const int32_t stages = schedule.shape.stages();
  for (int32_t first = 0; first < microbatches; first += schedule.shape.ranks) {
    const int32_t end = std::min(microbatches, first + schedule.shape.ranks);
    for (int32_t stage = 0; stage < stages; ++stage) {
      for (int32_t i = first; i < end; ++i) append(Op::kForward, stage, i);
    }
  }
  // The passes complete whole steps: the backwards exist only for them.
  for (int32_t stage = stages; stage-- > 0;) {
    for (int32_t i = 0; i < microbatches; ++i) append(Op::kBackward, stage, i);
  }
  schedule = lower(schedule, {});
  for (auto& actions : schedule.ranks) {
    std::erase_if(actions, [](const Action& action) {
      return action.op != Op::kForward && action.op != Op::kSendForward && action.op != Op::kRecvForward &&
             action.op != Op::kWaitSendForward;
    });
  }
  schedule.data = placed.data;
  return place_segments(std::move(schedule));
}

}  // namespace braid::schedule
