// When each rank did each action of a measured step, as plain data.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::report {

/// One action as a rank ran it.
struct ActionRecord {
  schedule::Action action;
  schedule::Seconds begin{0};  ///< the rank reached it
  schedule::Seconds ready{0};  ///< its input was available and work began; the rank waited until then
  schedule::Seconds end{0};

  friend bool operator==(const ActionRecord&, const ActionRecord&) = default;
};

/// A measured step on one common clock.
struct Timeline {
  schedule::Schedule schedule;
  /// Of each rank, in the order of its list in `schedule`.
  std::vector<std::vector<ActionRecord>> ranks;

  friend bool operator==(const Timeline&, const Timeline&) = default;
};

/// Throws ConfigError if the schedule is not valid, and DataError unless there is one record for each of its
/// actions, in its order, with finite begin <= ready <= end, and no rank's compute actions (the optimizer
/// step included) overlap one another, nor its communication actions.
void validate(const Timeline& timeline);

/// A rank's records as text, for gathering them from all ranks: their count, then one line
/// each, "F3c1 0.25 0.5 0.75". Times read back exactly.
std::string to_text(std::span<const ActionRecord> records);

/// Parses the output of to_text. Throws DataError naming the line if something is missing or malformed.
std::vector<ActionRecord> records_from_text(std::string_view text);

/// The measured step in the form of a simulated one, for comparison: an action lasts from `ready` to
/// `end`, the clock's 0 is the start of the first compute action on any rank (what was posted before it
/// starts below 0), and the rest is computed as simulate does. Throws as validate does.
schedule::Simulation measured_simulation(const Timeline& timeline);

/// `simulation` with its clock shifted so that the first compute action on any rank starts at 0.
/// Not checked: it has one interval for each action of `schedule`.
schedule::Simulation from_first_start(const schedule::Schedule& schedule, schedule::Simulation simulation);

}  // namespace braid::report
