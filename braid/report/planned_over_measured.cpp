#include "braid/report/planned_over_measured.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/report/pipeline_drawing.h"

namespace braid::report {
namespace {

using schedule::Interval;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

// The gaps of a rank's measured row, each cut to the part in which the rank waited for input.
// `measured` has the same intervals as `records`, on the drawing's clock.
std::vector<Interval> waits_of(const std::vector<ActionRecord>& records,
                               const std::vector<Interval>& measured) {
  std::vector<Interval> waits;
  bool is_first = true;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& [action, begin, ready, end] = records[i];
    if (!is_compute(action.op) || end == ready) continue;
    if (!is_first && ready > begin) {
      waits.push_back({.start = measured[i].start - (ready - begin), .end = measured[i].start});
    }
    is_first = false;
  }
  return waits;
}

std::string footer(const Simulation& planned, const Simulation& measured, const TimeScale& scale) {
  const std::string ratio =
      planned.step_time > Seconds(0)
          ? cat(" (", number_text(measured.step_time / planned.step_time), " times the plan)")
          : "";
  return cat("step time: planned ", time_text(scale, planned.step_time), ", measured ",
             time_text(scale, measured.step_time), ratio, "; bubble rate: planned ",
             percent_text(planned.bubble_rate), ", measured ", percent_text(measured.bubble_rate));
}

}  // namespace

std::string draw_planned_over_measured(const Timeline& timeline, const Simulation& planned) {
  constexpr double kPlanHeight = 9;
  constexpr double kGap = 1;
  constexpr double kRowExtra = kPlanHeight + kGap;
  const Schedule& schedule = timeline.schedule;
  const Simulation measured = measured_simulation(timeline);
  require_drawable(schedule, planned);
  require_drawable(schedule, measured);
  const Simulation plan = from_first_start(schedule, planned);

  const Seconds end = std::max(end_of(schedule, plan), end_of(schedule, measured));
  const TimeScale scale = scale_for(end);
  const Layout layout = plan_layout(schedule, measured, end, kRowExtra + kGap);
  const std::string title = heading(schedule) + ", planned above measured";
  std::vector<LegendEntry> legend = legend_entries(schedule);
  legend.push_back({.text = "planned idle, measured waiting", .is_hatched = true});
  const std::string sums = footer(planned, measured, scale);

  const double width =
      std::max({layout.left + layout.plot_width + kMargin, head_width(title, legend), foot_width(sums)});
  std::string svg = svg_begin(width, layout.bottom + kFootHeight, title) + draw_head(title, legend);
  svg += draw_time_axis(layout, scale, end) + draw_rank_names(layout, schedule.shape.ranks, kRowExtra);
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const auto row = static_cast<size_t>(rank);
    const double y = layout.top + layout.row_pitch * rank;
    const std::vector<TimedAction> actions = timed_actions(schedule, plan, rank);
    svg += draw_idle(layout, gaps_between(actions), scale, y, kPlanHeight, "planned idle");
    svg += draw_actions(layout, actions, schedule.shape, scale, y, kPlanHeight);
    svg += draw_idle(layout, waits_of(timeline.ranks[row], measured.ranks[row]), scale, y + kRowExtra,
                     layout.row_height, "waiting");
    svg += draw_actions(layout, timed_actions(schedule, measured, rank), schedule.shape, scale, y + kRowExtra,
                        layout.row_height);
  }
  svg += draw_foot(layout, sums);
  return svg + svg_end();
}

}  // namespace braid::report
