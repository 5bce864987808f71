#include "braid/report/flights.h"

#include <algorithm>

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Interval;
using schedule::Op;
using schedule::Seconds;

/// What an exchange of a segment takes.
Seconds duration_of(const schedule::SegmentTimes& times, Op op) {
  if (op == Op::kGather) return times.gather;
  return op == Op::kReduce ? times.reduce : times.reduce_dp;
}

}  // namespace

std::string_view to_string(Lane lane) {
  switch (lane) {
    case Lane::kSharding:
      return "sharding";
    case Lane::kDp:
      return "dp";
    case Lane::kStepEnd:
      return "end of step";
  }
  return "unknown";
}

std::optional<Lane> lane_of(Op op) {
  if (op == Op::kGather || op == Op::kReduce) return Lane::kSharding;
  if (op == Op::kReduceDp) return Lane::kDp;
  if (op == Op::kNorm || op == Op::kReduceTied) return Lane::kStepEnd;
  return std::nullopt;
}

std::optional<Op> awaited_by(Op wait) {
  if (wait == Op::kWaitGather) return Op::kGather;
  if (wait == Op::kWaitReduce) return Op::kReduce;
  if (wait == Op::kWaitReduceDp) return Op::kReduceDp;
  if (wait == Op::kWaitNorm) return Op::kNorm;
  if (wait == Op::kWaitReduceTied) return Op::kReduceTied;
  return std::nullopt;
}

std::vector<Flight> flights_of(const schedule::Schedule& schedule, int32_t rank,
                               const std::vector<Interval>& intervals, const schedule::Durations* durations) {
  const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(rank)];
  std::vector<Flight> flights;
  std::vector<bool> is_awaited;
  std::array<Seconds, kLanes.size()> free{};  // when each lane is
  if (!intervals.empty()) free.fill(intervals.front().start);
  for (size_t i = 0; i < list.size(); ++i) {
    const Action& action = list[i];
    if (const std::optional<Lane> lane = lane_of(action.op)) {
      Interval interval = {.start = intervals[i].start, .end = intervals[i].end};
      if (durations != nullptr && is_segment(action.op)) {
        const int32_t stage = stage_of(schedule, {.rank = rank, .chunk = action.chunk});
        const auto times = durations->of_segment(stage, action.segment, segments_of(schedule, stage));
        Seconds& now = free[static_cast<size_t>(*lane)];
        interval.start = std::max(now, intervals[i].end);
        now = interval.end = interval.start + duration_of(times, action.op);
      }
      flights.push_back({.action = action, .start_position = i, .interval = interval});
      is_awaited.push_back(false);
    } else if (const std::optional<Op> awaited = awaited_by(action.op)) {
      for (size_t k = 0; k < flights.size(); ++k) {
        const Action& started = flights[k].action;
        if (is_awaited[k] || started.op != *awaited || started.chunk != action.chunk ||
            started.segment != action.segment) {
          continue;
        }
        is_awaited[k] = true;
        flights[k].wait_position = i;
        if (durations == nullptr || !is_segment(action.op)) flights[k].interval.end = intervals[i].end;
        break;
      }
    }
  }
  std::vector<Flight> result;
  for (size_t k = 0; k < flights.size(); ++k) {
    if (is_awaited[k]) result.push_back(flights[k]);
  }
  return result;
}

}  // namespace braid::report
