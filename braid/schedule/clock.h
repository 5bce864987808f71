// A clock that runs the lists of all ranks together; shared by simulate, step_interval and check.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/replay.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {

/// How long a compute action or an update of `rank` takes.
inline Seconds duration_of(const Schedule& schedule, const Durations& durations, int32_t rank,
                           const Action& action) {
  const int32_t stage = stage_of(schedule, {.rank = rank, .chunk = action.chunk});
  Seconds whole = durations.of(stage).of(action.op);
  if (action.weight.exists()) {
    const int32_t weight_stage = stage_of(schedule, {.rank = rank, .chunk = action.weight.chunk});
    const Seconds weight = durations.of(weight_stage).backward_weight;
    whole += weight - std::min(weight, durations.of(stage).exchange_of(action.op));
  }
  if (action.segment == kAllSegments) return whole;
  return whole * durations.of_segment(stage, action.segment, segments_of(schedule, stage)).share;
}

/// The actions that move segments among data ranks. They never wait for another rank of the pipeline.
template <typename Time>
class SegmentClock {
 public:
  SegmentClock(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        ranks_(schedule.data.is_on() ? schedule.ranks.size() : 0) {}

  /// Runs `action`, moving `now` to its end.
  void perform(int32_t rank, const Action& action, Time& now) {
    Rank& mine = ranks_[static_cast<size_t>(rank)];
    const int32_t stage = stage_of(schedule_, {.rank = rank, .chunk = action.chunk});
    const SegmentTimes times = durations_.of_segment(stage, action.segment, segments_of(schedule_, stage));
    switch (action.op) {
      case Op::kGather:
        return start(mine, mine.sharding, action, times.gather, now);
      case Op::kReduce:
        return start(mine, mine.sharding, action, times.reduce, now);
      case Op::kReduceDp:
        return start(mine, mine.dp, action, times.reduce_dp, now);
      case Op::kWaitGather:
        return wait(mine, Op::kGather, action, now);
      case Op::kWaitReduce:
        return wait(mine, Op::kReduce, action, now);
      case Op::kWaitReduceDp:
        return wait(mine, Op::kReduceDp, action, now);
      case Op::kRelease:
      case Op::kForward:
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight:
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
        return;
    }
  }

 private:
  struct Started {
    Op op;
    int32_t chunk;
    int32_t segment;
    Time end;
  };
  struct Rank {
    Time sharding{};  // when the axis is free
    Time dp{};
    std::vector<Started> started;
  };

  static void start(Rank& rank, Time& axis, const Action& action, Seconds duration, const Time& now) {
    axis = std::max(axis, now) + duration;
    rank.started.push_back({action.op, action.chunk, action.segment, axis});
  }

  static void wait(Rank& rank, Op op, const Action& action, Time& now) {
    const auto found = std::find_if(rank.started.begin(), rank.started.end(), [&](const Started& started) {
      return started.op == op && started.chunk == action.chunk && started.segment == action.segment;
    });
    if (found == rank.started.end()) return;
    now = std::max(now, found->end);
    rank.started.erase(found);
  }

  const Schedule& schedule_;
  const Durations& durations_;
  std::vector<Rank> ranks_;
};

/// The actions that end a step, on ranks that a Replay runs. `Time` is Seconds or something that is compared
/// and added to like Seconds; Time{} is the earliest.
template <typename Time>
class StepEndClock {
 public:
  StepEndClock(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        tied_starts_(schedule.ranks.size()),
        norms_(has_step_end(schedule) ? schedule.ranks.size() : 0) {}

  /// Runs `action`, moving `now` to its end. Or changes nothing and returns the rank that must continue
  /// first.
  std::optional<int32_t> try_action(int32_t rank, const Action& action, Time& now) {
    switch (action.op) {
      case Op::kReduceTied:
        tied_starts_[static_cast<size_t>(rank)].push_back({action.chunk, now});
        return std::nullopt;
      case Op::kWaitReduceTied:
        return wait_reduce_tied(rank, action.chunk, now);
      case Op::kNorm:
        norms_[static_cast<size_t>(rank)] = now;
        return std::nullopt;
      case Op::kWaitNorm:
        return wait_norm(now);
      case Op::kUpdate:
        now = now + duration_of(schedule_, durations_, rank, action);
        return std::nullopt;
      case Op::kForward:
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight:
      case Op::kSendForward:
      case Op::kRecvForward:
      case Op::kSendBackward:
      case Op::kRecvBackward:
      case Op::kWaitSendForward:
      case Op::kWaitSendBackward:
      case Op::kGather:
      case Op::kWaitGather:
      case Op::kRelease:
      case Op::kReduce:
      case Op::kWaitReduce:
      case Op::kReduceDp:
      case Op::kWaitReduceDp:
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  struct Start {
    int32_t chunk = 0;
    Time time{};
  };

  std::optional<Time> start_of(Place place) const {
    for (const Start& start : tied_starts_[static_cast<size_t>(place.rank)]) {
      if (start.chunk == place.chunk) return start.time;
    }
    return std::nullopt;
  }

  std::optional<int32_t> wait_reduce_tied(int32_t rank, int32_t chunk, Time& now) const {
    for (const TiedReduction& reduction : tied_reductions(schedule_, rank)) {
      if (reduction.chunk != chunk || reduction.other.rank == rank) continue;
      const std::optional<Time> mine = start_of({.rank = rank, .chunk = chunk});
      if (!mine) return rank;
      const std::optional<Time> theirs = start_of(reduction.other);
      if (!theirs) return reduction.other.rank;
      now = std::max(now, std::max(*mine, *theirs) + durations_.tied_exchange);
    }
    return std::nullopt;
  }

  std::optional<int32_t> wait_norm(Time& now) {
    for (; first_missing_ < norms_.size(); ++first_missing_) {
      const std::optional<Time>& norm = norms_[first_missing_];
      if (!norm) return static_cast<int32_t>(first_missing_);
      last_norm_ = std::max(last_norm_, *norm);
    }
    now = std::max(now, last_norm_ + durations_.norm_exchange);
    return std::nullopt;
  }

  const Schedule& schedule_;
  const Durations& durations_;
  std::vector<std::vector<Start>> tied_starts_;  // by rank
  std::vector<std::optional<Time>> norms_;       // by rank
  size_t first_missing_ = 0;                     // of norms_
  Time last_norm_{};                             // of those before it
};

/// Runs all actions, each as soon as possible: see simulate. A rank's clock starts at its element of
/// `starts`, none of them before Time{}.
template <typename Time>
class Clock {
 public:
  Clock(const Schedule& schedule, const Durations& durations, std::vector<Time> starts)
      : schedule_(schedule),
        durations_(durations),
        with_messages_(has_messages(schedule)),
        now_(std::move(starts)),
        available_(static_cast<size_t>(handover_count(schedule.shape)), Time{Seconds(-1)}),
        step_end_(schedule, durations),
        segments_(schedule, durations) {}

  /// Runs the action at `position` of `rank` and calls record(start, end). Or changes nothing and returns the
  /// rank that must go on first.
  template <typename Record>
  std::optional<int32_t> try_action(int32_t rank, size_t position, const Record& record) {
    const auto row = static_cast<size_t>(rank);
    const Action& action = schedule_.ranks[row][position];
    Time start = now_[row];
    Time end = start;
    switch (class_of(action.op)) {
      case OpClass::kCompute: {
        if (const std::optional<Handover> input = input_of(schedule_, rank, action)) {
          const Time& arrival = available_[static_cast<size_t>(input->tag)];
          if (arrival < Time{}) return input->from.rank;
          start = std::max(start, arrival);
        }
        end = start + duration_of(schedule_, durations_, rank, action);
        const std::optional<Handover> output = output_of(schedule_, rank, action);
        if (output && (!with_messages_ || output->is_local())) hand_over(*output, end);
        break;
      }
      case OpClass::kSend:
        if (const auto message = message_of(schedule_, rank, action)) hand_over(*message, start);
        break;
      case OpClass::kReceive:
        break;
      case OpClass::kWaitSend:
        if (const auto message = message_of(schedule_, rank, action)) {
          end = std::max(end, available_[static_cast<size_t>(message->tag)]);
        }
        break;
      case OpClass::kStepEnd:
        if (const auto blocker = step_end_.try_action(rank, action, end)) return blocker;
        break;
      case OpClass::kSegment:
        segments_.perform(rank, action, end);
        break;
    }
    record(start, end);
    now_[row] = end;
    return std::nullopt;
  }

  /// When each rank ended its last action.
  const std::vector<Time>& now() const { return now_; }

 private:
  void hand_over(const Handover& output, Time time) {
    available_[static_cast<size_t>(output.tag)] =
        time + (output.is_local() ? Seconds(0) : durations_.communication);
  }

  const Schedule& schedule_;
  const Durations& durations_;
  bool with_messages_;
  std::vector<Time> now_;        // by rank
  std::vector<Time> available_;  // by tag; before Time{} while it is not
  StepEndClock<Time> step_end_;
  SegmentClock<Time> segments_;
};

/// Runs `schedule` on a Clock, calls record(rank, position, start, end) for each action, and returns the time
/// at which each rank's list ends. Throws ConfigError that says why if the schedule gets stuck. Not checked:
/// `schedule` and `durations` are valid.
template <typename Time, typename Record>
std::vector<Time> run_clock(const Schedule& schedule, const Durations& durations, std::vector<Time> starts,
                            const Record& record) {
  std::vector<size_t> lengths;
  for (const std::vector<Action>& list : schedule.ranks) lengths.push_back(list.size());
  Clock<Time> clock(schedule, durations, std::move(starts));
  Replay replay(std::move(lengths));
  replay.run([&](int32_t rank, size_t position) {
    return clock.try_action(rank, position,
                            [&](Time start, Time end) { record(rank, position, start, end); });
  });
  if (const std::optional<int32_t> stuck = replay.first_stuck()) {
    check(schedule);  // explains the reason better
    throw ConfigError(
        cat(location(schedule, *stuck, replay.position(*stuck)), ": what it needs never comes"));
  }
  return clock.now();
}

}  // namespace braid::schedule
