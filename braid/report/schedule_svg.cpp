#include "braid/report/schedule_svg.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/pipeline_drawing.h"

namespace braid::report {
namespace {

using schedule::Schedule;
using schedule::Simulation;

constexpr double kPeakFont = 11;

std::string peak_text(const DrawOptions& options, double peak) {
  return options.peak_unit == "bytes" && peak >= 0 ? bytes_text(static_cast<uint64_t>(peak)) : brief(peak, 5);
}

std::string peak_heading(const DrawOptions& options) {
  return options.peak_unit.empty() || options.peak_unit == "bytes" ? "peak" : cat("peak ", options.peak_unit);
}

double peak_column_width(const DrawOptions& options) {
  if (options.peaks.empty()) return 0;
  double width = text_width(peak_heading(options), kPeakFont);
  for (const double peak : options.peaks) {
    width = std::max(width, text_width(peak_text(options, peak), kPeakFont));
  }
  return width + kMargin;
}

std::string draw_peaks(const Layout& layout, const DrawOptions& options) {
  if (options.peaks.empty()) return {};
  const double x = layout.left + layout.plot_width + kMargin;
  const double font = std::min(kPeakFont, layout.row_height - 2);
  std::string texts = text_element(x, layout.top - 7, {}, peak_heading(options));
  for (size_t rank = 0; rank < options.peaks.size(); ++rank) {
    const double middle = layout.top + layout.row_pitch * static_cast<double>(rank) + layout.row_height / 2;
    texts += text_element(x, middle + font * 0.36, {}, peak_text(options, options.peaks[rank]));
  }
  return cat("<g", attribute("font-size", font), ">\n", texts, "</g>\n");
}

std::string footer(const Simulation& simulation, const TimeScale& scale) {
  return cat("step time ", time_text(scale, simulation.step_time), ", bubble rate ",
             percent_text(simulation.bubble_rate));
}

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& simulation, const DrawOptions& options) {
  require_drawable(schedule, simulation);
  require<ConfigError>(options.peaks.empty() || options.peaks.size() == schedule.ranks.size(),
                       "a drawing of ", schedule.ranks.size(), " ranks needs as many peaks or none, got ",
                       options.peaks.size());
  const schedule::Seconds end = end_of(schedule, simulation);
  const TimeScale scale = options.time_unit == TimeUnit::kSeconds ? scale_for(end) : TimeScale{};
  const Layout layout = plan_layout(schedule, simulation, end, 0);
  const std::string title = heading(schedule);
  std::vector<LegendEntry> legend = legend_entries(schedule);
  legend.push_back({.text = "idle", .is_hatched = true});

  const std::string sums = footer(simulation, scale);
  const double width = std::max({layout.left + layout.plot_width + kMargin + peak_column_width(options),
                                 head_width(title, legend), foot_width(sums)});
  std::string svg = svg_begin(width, layout.bottom + kFootHeight, title) + draw_head(title, legend);
  svg += draw_time_axis(layout, scale, end) + draw_rank_names(layout, schedule.shape.ranks, 0);
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const double y = layout.top + layout.row_pitch * rank;
    const std::vector<TimedAction> actions = timed_actions(schedule, simulation, rank);
    svg += draw_idle(layout, gaps_between(actions), scale, y, layout.row_height, "idle");
    svg += draw_actions(layout, actions, schedule.shape, scale, y, layout.row_height);
  }
  svg += draw_peaks(layout, options) + draw_foot(layout, sums);
  return svg + svg_end();
}

}  // namespace braid::report
