#include "braid/schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/replay.h"

namespace braid::schedule {
namespace {

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
  }
  require_time(durations.communication, "a message");
}

class Clock {
 public:
  Clock(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        with_messages_(has_messages(schedule)),
        now_(schedule.ranks.size(), Seconds(0)),
        available_(static_cast<size_t>(hand_over_count(schedule.shape)), kNotYet) {
    intervals_.resize(schedule.ranks.size());
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      intervals_[rank].resize(schedule.ranks[rank].size());
    }
  }

  std::optional<int32_t> try_action(int32_t rank, size_t position) {
    const auto row = static_cast<size_t>(rank);
    const Action& action = schedule_.ranks[row][position];
    Seconds start = now_[row];
    Seconds end = start;
    if (is_compute(action.op)) {
      const std::optional<Handover> input = input_of(schedule_, rank, action);
      if (input) {
        const Seconds arrival = available_[static_cast<size_t>(input->tag)];
        if (arrival == kNotYet) return input->from.rank;
        start = std::max(start, arrival);
      }
      end = start + durations_.of(stage_of(schedule_, {.rank = rank, .chunk = action.chunk})).of(action.op);
      const std::optional<Handover> output = output_of(schedule_, rank, action);
      if (output && (!with_messages_ || output->is_local())) hand_over(*output, end);
    } else if (is_send(action.op)) {
      const std::optional<Handover> message = message_of(schedule_, rank, action);
      if (message) hand_over(*message, start);
    } else if (is_wait_send(action.op)) {
      const std::optional<Handover> message = message_of(schedule_, rank, action);
      if (message) end = std::max(end, available_[static_cast<size_t>(message->tag)]);
    }
    intervals_[row][position] = {start, end};
    now_[row] = end;
    return std::nullopt;
  }

  std::vector<std::vector<Interval>> take_intervals() { return std::move(intervals_); }

 private:
  static constexpr Seconds kNotYet{-1.0};

  void hand_over(const Handover& output, Seconds time) {
    const Seconds delay = output.is_local() ? Seconds(0) : durations_.communication;
    available_[static_cast<size_t>(output.tag)] = time + delay;
  }

  const Schedule& schedule_;
  const Durations& durations_;
  bool with_messages_;
  std::vector<Seconds> now_;
  std::vector<Seconds> available_;  // by tag
  std::vector<std::vector<Interval>> intervals_;
};

}  // namespace

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
    case Op::kUpdate:
      return Seconds(0);
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
  validate(durations, schedule.shape);
  Clock clock(schedule, durations);
  std::vector<size_t> lengths;
  for (const std::vector<Action>& list : schedule.ranks) lengths.push_back(list.size());
  Replay replay(std::move(lengths));
  replay.run([&](int32_t rank, size_t position) { return clock.try_action(rank, position); });
  if (const std::optional<int32_t> stuck = replay.first_stuck()) {
    check(schedule);  // has the better words for why
    throw ConfigError(
        cat(location(schedule, *stuck, replay.position(*stuck)), ": what it needs never comes"));
  }
  Simulation result = {.ranks = clock.take_intervals()};
  summarise(schedule, result);
  result.peak_live_activations = peak_live_activations(schedule);
  return result;
}

}  // namespace braid::schedule
