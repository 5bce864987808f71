// What the drawings of pipelines have in common: boxes for actions, idle time, the time axis, the legend.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "braid/report/svg.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::report {

/// How times are told: `factor` times the seconds, in `unit`, which is empty for times that only stand in
/// relation to each other.
struct TimeScale {
  double factor = 1;
  std::string_view unit;
};

/// In s, ms or µs, whichever suits the longest time to be told.
TimeScale scale_for(schedule::Seconds longest);

/// "12.5 ms", or "12.5" without a unit.
std::string time_text(const TimeScale& scale, schedule::Seconds time);

/// 0.2727 as "27.27%".
std::string percent_text(double share);

/// A compute action and when its rank did it.
struct TimedAction {
  schedule::Action action;
  schedule::Interval interval;
};

/// The compute actions of `rank` that take time, in order.
std::vector<TimedAction> timed_actions(const schedule::Schedule& schedule,
                                       const schedule::Simulation& simulation, int32_t rank);

/// The time between one and the next, where there is any.
std::vector<schedule::Interval> gaps_between(const std::vector<TimedAction>& actions);

/// The last end of any compute action.
schedule::Seconds end_of(const schedule::Schedule& schedule, const schedule::Simulation& simulation);

/// Throws ConfigError unless `schedule` is valid, `simulation` has one interval for each of its actions, each
/// finite and not ending before its start, and there are few enough of them to draw.
void require_drawable(const schedule::Schedule& schedule, const schedule::Simulation& simulation);

/// Between the drawing and the document's edges, in pixels.
inline constexpr double kMargin = 16;

/// Where the rows stand, in pixels.
struct Layout {
  double left = 0;  ///< of the plot: to its left stand the ranks' names
  double top = 0;
  double plot_width = 0;
  double row_height = 0;  ///< of the boxes of one rank
  double row_pitch = 0;   ///< from one rank's row to the next
  double pixels_per_second = 0;
  double bottom = 0;  ///< of the last row

  Box box_of(const schedule::Interval& interval, double y, double height) const;
};

/// Room for the plot: about as wide as its actions need to be readable, within limits; rows that get lower
/// the more there are. `end` is the time at the plot's right edge; `row_extra` is what stands above a rank's
/// boxes, in pixels.
Layout plan_layout(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                   schedule::Seconds end, double row_extra);

/// "1F1B: p = 4 ranks, m = 8 microbatches, v = 1 chunk per rank".
std::string heading(const schedule::Schedule& schedule);

/// What a box stands for.
struct LegendEntry {
  Colour colour;
  std::string text;
  bool is_hatched = false;
};

/// The ops and chunks that occur in `schedule`.
std::vector<LegendEntry> legend_entries(const schedule::Schedule& schedule);

/// The title with the legend below it, which take up the space above the plot, and the pattern for idle
/// time; once per document. And how wide that is, margins included.
std::string draw_head(std::string_view title, const std::vector<LegendEntry>& legend);
double head_width(std::string_view title, const std::vector<LegendEntry>& legend);

/// The line below the time axis, and how wide it is, margins included; a document ends kFootHeight below the
/// last row.
inline constexpr double kFootHeight = 54;
std::string draw_foot(const Layout& layout, std::string_view text);
double foot_width(std::string_view text);

/// Lines at round times behind the rows, their numbers below, and what they count.
std::string draw_time_axis(const Layout& layout, const TimeScale& scale, schedule::Seconds end);

/// The names of the ranks in the middle of their boxes, which begin `row_extra` below the top of each row.
std::string draw_rank_names(const Layout& layout, int32_t ranks, double row_extra);

/// One row of boxes, with the microbatch in each where it is readable. `y` is its upper edge.
std::string draw_actions(const Layout& layout, const std::vector<TimedAction>& actions,
                         const schedule::PipelineShape& shape, const TimeScale& scale, double y,
                         double height);

/// The hatched boxes of time without work; `what` is for their tool tips.
std::string draw_idle(const Layout& layout, const std::vector<schedule::Interval>& gaps,
                      const TimeScale& scale, double y, double height, std::string_view what);

}  // namespace braid::report
