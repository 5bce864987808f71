// Pipeline schedules drawn to scale, for web pages and papers: as planned, and as measured against the plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "braid/report/timeline.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::report {

/// The meaning of the simulation's times.
enum class TimeUnit {
  kRelative,  // relative to one another, as with durations of 1: drawn without a unit
  kSeconds,   // drawn in s, ms or µs, whichever suits the step time
};

struct DrawOptions {
  TimeUnit time_unit = TimeUnit::kRelative;
  /// Printed at the right end of each rank's row; one for each rank, or none.
  std::vector<double> peaks{};
  /// Above the peaks: "activations", "bytes". Bytes are written as "3.20 GiB".
  std::string peak_unit = "activations";
  /// Those of the simulation, by which exchanges are in flight for as long as they take. Unset: until the
  /// rank has waited for them.
  std::optional<schedule::Durations> durations{};
};

/// A self-contained SVG 1.1 document without scripts. One row per rank, time from left to right: a box for
/// each compute action that takes time, labelled with its microbatch where there is room, and always with a
/// tooltip
/// ("F12 chunk 1, 3.2 to 4.2"); one colour per op, lighter for later chunks; hatched where the rank idles
/// between its first and its last action. Title, legend, time axis, step time,
/// bubble rate and peaks complete it. A schedule with data axes also has, below each rank's row, a lane of
/// what is in flight over each axis, and in the row updates and waits for exchanges. The same arguments give
/// the same text. It is as wide as the actions need to be readable, up to a limit. Throws ConfigError if
/// `schedule` is not valid, if `simulation` is not of `schedule`, if there are more than 200 000 actions, or
/// if there is not one peak per rank.
std::string draw_svg(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                     const DrawOptions& options);

/// The same for a measured step: for each rank a low row with the plan above one with the measurement, on one
/// time axis in s, ms or µs; in both the first action starts at 0. Hatched are idle time in the plan and
/// waiting for input in the measurement, from a rank's first action to its last; what is blank between
/// measured actions is neither work nor waiting. Below: step times, their ratio, bubble rates.
/// With data axes, lanes as above below both rows: `durations`, unless null, are those of `planned`; a
/// measured exchange is drawn from its start to the end of its wait.
/// Throws like validate(Timeline), and ConfigError if `planned` is not a simulation of timeline.schedule
/// or there are more than 200 000 actions.
std::string draw_planned_over_measured(const Timeline& timeline, const schedule::Simulation& planned,
                                       const schedule::Durations* durations = nullptr);

}  // namespace braid::report
