#include "braid/report/strips.h"

#include <algorithm>
#include <optional>

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Interval;
using schedule::Op;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

// Where there are data axes, also what exchanges run behind or hold up at the end of a step.
bool is_drawn(const Schedule& schedule, Op op) {
  const bool is_box = is_compute(op) || op == Op::kUpdate || awaited_by(op);
  return is_box && style_of(op) && (is_compute(op) || schedule.data.is_on());
}

}  // namespace

Strip strip_of(const Schedule& schedule, const Simulation& simulation, std::string_view idle_tip) {
  Strip strip = {.idle_tip = idle_tip};
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<TimedAction>& actions = strip.ranks.emplace_back();
    std::vector<Interval>& gaps = strip.idle.emplace_back();
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action& action = schedule.ranks[rank][i];
      const Interval& interval = simulation.ranks[rank][i];
      if (!is_drawn(schedule, action.op) || interval.end == interval.start) continue;
      const Seconds before = actions.empty() ? interval.start : actions.back().interval.end;
      // Sums of durations differ in their last digits though nothing lies between.
      if (interval.start - before > 1e-9 * interval.start) gaps.push_back({before, interval.start});
      actions.push_back({.action = action, .style = *style_of(action.op), .interval = interval});
    }
  }
  return strip;
}

void add_flights(Strip& strip, const Schedule& schedule, const Simulation& simulation,
                 const schedule::Durations* durations) {
  if (!schedule.data.is_on()) return;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<Flight>& flights = strip.flights.emplace_back(
        flights_of(schedule, static_cast<int32_t>(rank), simulation.ranks[rank], durations));
    std::erase_if(flights, [](const Flight& flight) { return flight.interval.end <= flight.interval.start; });
  }
}

std::vector<Lane> lanes_of(const std::vector<Strip>& strips) {
  std::vector<Lane> lanes;
  for (const Lane lane : kLanes) {
    const auto is_in_lane = [&](const Flight& flight) { return lane_of(flight.action.op) == lane; };
    const bool is_used = std::ranges::any_of(strips, [&](const Strip& strip) {
      return std::ranges::any_of(
          strip.flights, [&](const auto& flights) { return std::ranges::any_of(flights, is_in_lane); });
    });
    if (is_used) lanes.push_back(lane);
  }
  return lanes;
}

Seconds longest_exchange_wait(const Strip& strip) {
  Seconds longest{0};
  for (const auto& rank : strip.ranks) {
    Seconds sum{0};
    for (const TimedAction& timed : rank) {
      if (awaited_by(timed.action.op)) sum += timed.interval.end - timed.interval.start;
    }
    longest = std::max(longest, sum);
  }
  return longest;
}

Seconds end_of(const std::vector<Strip>& strips) {
  Seconds end{0};
  for (const Strip& strip : strips) {
    for (const auto& rank : strip.ranks) {
      for (const TimedAction& timed : rank) end = std::max(end, timed.interval.end);
    }
    for (const auto& rank : strip.flights) {
      for (const Flight& flight : rank) end = std::max(end, flight.interval.end);
    }
  }
  return end;
}

Seconds typical_short_action(const Strip& strip) {
  std::vector<Seconds> durations;
  for (const auto& rank : strip.ranks) {
    for (const TimedAction& timed : rank) {
      if (is_compute(timed.action.op)) durations.push_back(timed.interval.end - timed.interval.start);
    }
  }
  if (durations.empty()) return Seconds(0);
  const auto quarter = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 4);
  std::nth_element(durations.begin(), quarter, durations.end());
  return *quarter;
}

Seconds lead_of(const Schedule& schedule, const Simulation& simulation) {
  Seconds lead{0};
  if (!schedule.data.is_on()) return lead;
  for (const std::vector<Interval>& intervals : simulation.ranks) {
    if (!intervals.empty()) lead = std::max(lead, -intervals.front().start);
  }
  return lead;
}

void delay(Simulation& simulation, Seconds by) {
  for (std::vector<Interval>& intervals : simulation.ranks) {
    for (Interval& interval : intervals) interval = {interval.start + by, interval.end + by};
  }
}

}  // namespace braid::report
