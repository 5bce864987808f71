#include "braid/schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/clock.h"
#include "braid/schedule/replay.h"

namespace braid::schedule {

void validate(const Durations& durations, const PipelineShape& shape) {
  const auto given = std::ssize(durations.stages);
  require<ConfigError>(given == 1 || given == shape.stages(),
                       "durations are needed for 1 stage (they hold for all) or ", shape.stages(),
                       " stages, got ", given);
  const auto require_time = [](Seconds time, std::string_view what) {
    require<ConfigError>(std::isfinite(time.count()) && time.count() >= 0, "the time of ", what,
                         " must be finite and at least 0 seconds, got ", time.count());
  };
  for (const StageTimes& stage : durations.stages) {
    require_time(stage.forward, "a forward");
    require_time(stage.backward_input, "an input gradient");
    require_time(stage.backward_weight, "a weight gradient");
    require_time(stage.backward(), "a fused backward");
    require_time(stage.update, "an update");
    require_time(stage.forward_exchange, "a forward's exchange");
    require_time(stage.backward_exchange, "an input gradient's exchange");
    const auto require_part = [](Seconds part, Seconds whole, std::string_view what) {
      require<ConfigError>(part <= whole, "the exchange within ", what, " is a part of its time: it takes ",
                           part.count(), ", which must be at most ", whole.count());
    };
    require_part(stage.forward_exchange, stage.forward, "a forward");
    require_part(stage.backward_exchange, stage.backward_input, "an input gradient");
  }
  for (const std::vector<SegmentTimes>& stage : durations.segments) {
    for (const SegmentTimes& segment : stage) {
      require_time(Seconds(segment.share), "a segment's share");
      require_time(segment.gather, "a gather");
      require_time(segment.reduce, "a reduction");
      require_time(segment.reduce_dp, "a reduction over dp");
    }
  }
  require_time(durations.communication, "a message");
  require_time(durations.tied_exchange, "the exchange of a tied gradient");
  require_time(durations.norm_exchange, "the exchange of the norms");
}

void validate(const Durations& durations, const Schedule& schedule) {
  validate(durations, schedule.shape);
  if (durations.segments.empty()) return;
  require<ConfigError>(std::ssize(durations.segments) == schedule.shape.stages(), "times are given for the ",
                       "segments of ", durations.segments.size(), " stages, but ", schedule.name, " has ",
                       schedule.shape.stages());
  for (int32_t stage = 0; stage < schedule.shape.stages(); ++stage) {
    const auto given = std::ssize(durations.segments[static_cast<size_t>(stage)]);
    require<ConfigError>(given == segments_of(schedule, stage), "stage ", stage, " has ",
                         segments_of(schedule, stage), " segments, but times are given for ", given);
  }
}

Seconds StageTimes::of(Op op) const {
  switch (op) {
    case Op::kForward:
      return forward;
    case Op::kBackward:
      return backward();
    case Op::kBackwardInput:
      return backward_input;
    case Op::kBackwardWeight:
      return backward_weight;
    case Op::kSendForward:
    case Op::kRecvForward:
    case Op::kSendBackward:
    case Op::kRecvBackward:
    case Op::kWaitSendForward:
    case Op::kWaitSendBackward:
    case Op::kReduceTied:
    case Op::kWaitReduceTied:
    case Op::kNorm:
    case Op::kWaitNorm:
    case Op::kGather:
    case Op::kWaitGather:
    case Op::kRelease:
    case Op::kReduce:
    case Op::kWaitReduce:
    case Op::kReduceDp:
    case Op::kWaitReduceDp:
      return Seconds(0);
    case Op::kUpdate:
      return update;
  }
  return Seconds(0);
}

void summarise(const Schedule& schedule, Simulation& result) {
  result.step_time = result.longest_span = Seconds(0);
  result.bubble_rate = 0;
  Seconds busiest{0};
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    Seconds busy{0};
    std::optional<Seconds> first;
    Seconds last{0};
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      if (!is_compute(schedule.ranks[rank][i].op)) continue;
      const Interval& interval = result.ranks[rank][i];
      busy += interval.end - interval.start;
      if (!first) first = interval.start;
      last = interval.end;
    }
    busiest = std::max(busiest, busy);
    result.step_time = std::max(result.step_time, last);
    result.longest_span = std::max(result.longest_span, last - first.value_or(last));
  }
  if (result.longest_span > Seconds(0))
    // Sums in another order may differ in their last bit.
    result.bubble_rate = std::max(0.0, (result.longest_span - busiest) / result.longest_span);
}

Simulation simulate(const Schedule& schedule, const Durations& durations) {
  validate(schedule);
  validate(durations, schedule);
  Simulation result;
  for (const std::vector<Action>& list : schedule.ranks) result.ranks.emplace_back(list.size());
  run_clock(schedule, durations, std::vector<Seconds>(schedule.ranks.size()),
            [&](int32_t rank, size_t position, Seconds start, Seconds end) {
              result.ranks[static_cast<size_t>(rank)][position] = {start, end};
            });
  summarise(schedule, result);
  result.peak_live_activations = peak_live_activations(schedule);
  return result;
}

}  // namespace braid::schedule
