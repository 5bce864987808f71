// Exchanges in flight: what ranks send one another while they compute, from its start to its end.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::report {

/// What an exchange goes over. Those of one lane are performed in the order in which they were started.
enum class Lane : uint8_t {
  kSharding,  ///< GATHER and REDUCE
  kDp,        ///< REDUCE_DP
  kStepEnd,   ///< NORM, over all ranks, and REDUCE_TIED, over a pair
};
inline constexpr std::array kLanes = {Lane::kSharding, Lane::kDp, Lane::kStepEnd};

/// "sharding", "dp" or "end of step".
std::string_view to_string(Lane lane);

/// The lane of an action that starts an exchange; nothing for any other.
std::optional<Lane> lane_of(schedule::Op op);

/// The op that `wait` waits for; nothing for an op that is no wait for an exchange of a lane.
std::optional<schedule::Op> awaited_by(schedule::Op wait);

/// An exchange of one rank.
struct Flight {
  schedule::Action action;      ///< started it
  size_t start_position = 0;    ///< of that action in the rank's list
  size_t wait_position = 0;     ///< of its wait
  schedule::Interval interval;  ///< in flight

  friend bool operator==(const Flight&, const Flight&) = default;
};

/// The exchanges of `rank` that it waits for, in the order of their starts. `intervals` are those of the
/// rank's list. With `durations`, each exchange of segments is in flight as simulate has it: from its start
/// or the end of the one before it on its axis, for as long as its segment's times say. Without, as in a
/// measurement, and at the end of the step, from its start to the end of its wait: no rank knows better.
/// Not checked: there is one interval for each action.
std::vector<Flight> flights_of(const schedule::Schedule& schedule, int32_t rank,
                               const std::vector<schedule::Interval>& intervals,
                               const schedule::Durations* durations);

}  // namespace braid::report
