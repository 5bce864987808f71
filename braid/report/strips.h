// What a drawing of a schedule shows of its ranks: one line of boxes for each, and lanes of exchanges below.
#pragma once

#include <string_view>
#include <vector>

#include "braid/report/action_style.h"
#include "braid/report/flights.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::report {

/// A drawn action and when its rank did it.
struct TimedAction {
  schedule::Action action;
  Style style;
  schedule::Interval interval;
};

/// One line of boxes for each rank, and below it one for the exchanges of each lane.
struct Strip {
  std::string_view idle_tip;
  std::vector<std::vector<TimedAction>> ranks{};        ///< actions that take time, in order
  std::vector<std::vector<schedule::Interval>> idle{};  ///< hatched
  std::vector<std::vector<Flight>> flights{};  ///< that take time; empty for a schedule without data axes
};

/// Of one row of boxes for each rank; idle are the gaps between them. With data axes, updates and waits for
/// exchanges are boxes too.
Strip strip_of(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
               std::string_view idle_tip);

/// Adds the exchanges in flight, as flights_of has them, to a strip of a schedule with data axes.
void add_flights(Strip& strip, const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                 const schedule::Durations* durations);

/// The lanes in which anything is in flight.
std::vector<Lane> lanes_of(const std::vector<Strip>& strips);

/// The most that any rank waits for exchanges of segments.
schedule::Seconds longest_exchange_wait(const Strip& strip);

/// When all is over.
schedule::Seconds end_of(const std::vector<Strip>& strips);

/// The first quartile of the durations of compute actions.
schedule::Seconds typical_short_action(const Strip& strip);

/// How long before 0 the exchanges of segments begin; 0 without data axes.
schedule::Seconds lead_of(const schedule::Schedule& schedule, const schedule::Simulation& simulation);

/// Moves everything by `by`.
void delay(schedule::Simulation& simulation, schedule::Seconds by);

}  // namespace braid::report
