#include "braid/report/pipeline_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Interval;
using schedule::Op;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

// Far enough apart, the light shades of later chunks included, for people with any of the three kinds of
// colour blindness.
constexpr Colour kForward = {.red = 0x2f, .green = 0x4f, .blue = 0xb0};
constexpr Colour kBackward = {.red = 0xe6, .green = 0x9f, .blue = 0x00};
constexpr Colour kInputGradient = {.red = 0x1f, .green = 0xa3, .blue = 0xb8};
constexpr Colour kWeightGradient = {.red = 0x5f, .green = 0x9e, .blue = 0x1f};
constexpr Colour kIdle = {.red = 0xf2, .green = 0xf2, .blue = 0xf2};
constexpr std::string_view kHatch = "url(#idle)";

constexpr double kTitleFont = 16;
constexpr double kFootFont = 12;
constexpr double kLegendFont = 11;
constexpr double kLegendSquare = 12;
constexpr double kLegendGap = 18;

constexpr std::array<Op, 4> kDrawnOps = {Op::kForward, Op::kBackward, Op::kBackwardInput,
                                         Op::kBackwardWeight};

Colour base_colour(Op op) {
  if (op == Op::kForward) return kForward;
  if (op == Op::kBackwardInput) return kInputGradient;
  return op == Op::kBackwardWeight ? kWeightGradient : kBackward;
}

// The first chunk has the full colour, the last the lightest shade.
Colour colour_of(Op op, int32_t chunk, int32_t chunks) {
  constexpr double kLightest = 0.6;
  const double share = chunks > 1 ? kLightest * chunk / (chunks - 1) : 0.0;
  return lighter(base_colour(op), share);
}

std::string_view name_of(Op op) {
  if (op == Op::kForward) return "forward";
  if (op == Op::kBackwardInput) return "input gradient";
  return op == Op::kBackwardWeight ? "weight gradient" : "backward (both gradients)";
}

bool uses(const Schedule& schedule, Op op) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [op](const std::vector<Action>& list) {
    return std::any_of(list.begin(), list.end(), [op](const Action& action) { return action.op == op; });
  });
}

std::string span_text(const TimeScale& scale, const Interval& interval) {
  const TimeScale bare = {.factor = scale.factor, .unit = {}};
  return cat(time_text(bare, interval.start), " to ", time_text(scale, interval.end));
}

// "F12 chunk 1, 3.2 to 4.2".
std::string tip_of(const TimedAction& timed, int32_t chunks, const TimeScale& scale) {
  return cat(to_string(timed.action.op), timed.action.microbatch,
             chunks > 1 ? cat(" chunk ", timed.action.chunk) : "", ", ", span_text(scale, timed.interval));
}

// A quarter of the actions that take time are shorter, or as short.
Seconds typical_short_action(const Schedule& schedule, const Simulation& simulation) {
  std::vector<Seconds> durations;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    for (const TimedAction& timed : timed_actions(schedule, simulation, rank)) {
      durations.push_back(timed.interval.end - timed.interval.start);
    }
  }
  if (durations.empty()) return Seconds(0);
  const auto quarter = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 4);
  std::nth_element(durations.begin(), quarter, durations.end());
  return *quarter;
}

double entry_width(const LegendEntry& entry) {
  return kLegendSquare + 5 + text_width(entry.text, kLegendFont) + kLegendGap;
}

// The entries side by side from (x, y), the top left corner.
std::string draw_legend(const std::vector<LegendEntry>& entries, double x, double y) {
  std::string text;
  for (const LegendEntry& entry : entries) {
    const std::string fill = attribute("fill", entry.is_hatched ? kHatch : to_string(entry.colour));
    text += rect_element({.x = x, .y = y, .width = kLegendSquare, .height = kLegendSquare}, fill);
    text += text_element(x + kLegendSquare + 5, y + kLegendSquare - 2, attribute("font-size", kLegendFont),
                         entry.text);
    x += entry_width(entry);
  }
  return text;
}

std::string hatch_definition() {
  return cat("<defs><pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">",
             "<path d=\"M0 0H6V6H0Z\"", attribute("fill", to_string(kIdle)), "/>",
             "<path d=\"M-1 1L1 -1M0 6L6 0M5 7L7 5\"", attribute("stroke", "#c8c8c8"), "/>",
             "</pattern></defs>\n");
}

std::string count_text(int32_t count, std::string_view noun, std::string_view rest = {}) {
  return cat(count, " ", noun, count == 1 ? "" : (noun.ends_with("ch") ? "es" : "s"), rest);
}

}  // namespace

TimeScale scale_for(Seconds longest) {
  if (longest >= Seconds(1)) return {.factor = 1, .unit = "s"};
  if (longest >= Seconds(1e-3)) return {.factor = 1e3, .unit = "ms"};
  return {.factor = 1e6, .unit = "\u00b5s"};
}

std::string time_text(const TimeScale& scale, Seconds time) {
  const std::string number = number_text(time.count() * scale.factor);
  return scale.unit.empty() ? number : cat(number, " ", scale.unit);
}

std::string percent_text(double share) { return number_text(100 * share) + "%"; }

std::vector<TimedAction> timed_actions(const Schedule& schedule, const Simulation& simulation, int32_t rank) {
  const auto row = static_cast<size_t>(rank);
  std::vector<TimedAction> actions;
  for (size_t i = 0; i < schedule.ranks[row].size(); ++i) {
    const Interval& interval = simulation.ranks[row][i];
    if (!is_compute(schedule.ranks[row][i].op) || interval.end == interval.start) continue;
    actions.push_back({.action = schedule.ranks[row][i], .interval = interval});
  }
  return actions;
}

std::vector<Interval> gaps_between(const std::vector<TimedAction>& actions) {
  std::vector<Interval> gaps;
  for (size_t i = 1; i < actions.size(); ++i) {
    const Interval gap = {.start = actions[i - 1].interval.end, .end = actions[i].interval.start};
    // Sums of durations differ in their last digits though nothing lies between.
    if (gap.end - gap.start > 1e-9 * gap.end) gaps.push_back(gap);
  }
  return gaps;
}

Seconds end_of(const Schedule& schedule, const Simulation& simulation) {
  Seconds end{0};
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    for (const TimedAction& timed : timed_actions(schedule, simulation, rank))
      end = std::max(end, timed.interval.end);
  }
  return end;
}

void require_drawable(const Schedule& schedule, const Simulation& simulation) {
  validate(schedule);
  require<ConfigError>(simulation.ranks.size() == schedule.ranks.size(), "schedule ", schedule.name, " has ",
                       schedule.ranks.size(), " ranks, but the times are of ", simulation.ranks.size(),
                       ": take the simulation of this very schedule");
  size_t actions = 0;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const size_t expected = schedule.ranks[rank].size();
    require<ConfigError>(simulation.ranks[rank].size() == expected, "rank ", rank, " has ", expected,
                         " actions, but times of ", simulation.ranks[rank].size(),
                         ": take the simulation of this very schedule");
    for (size_t i = 0; i < expected; ++i) {
      const auto [start, end] = simulation.ranks[rank][i];
      require<ConfigError>(std::isfinite(start.count()) && std::isfinite(end.count()) && start <= end,
                           location(schedule, static_cast<int32_t>(rank), i), " runs from ", start.count(),
                           " to ", end.count(), ": times must be finite and not run backwards");
      require<ConfigError>(!is_compute(schedule.ranks[rank][i].op) || start >= Seconds(0),
                           location(schedule, static_cast<int32_t>(rank), i), " starts at ", start.count(),
                           ": a drawing begins at 0");
    }
    actions += expected;
  }
  constexpr size_t kMostActions = 200'000;
  require<ConfigError>(actions <= kMostActions, "schedule ", schedule.name, " has ", actions,
                       " actions, too many to draw (at most ", kMostActions,
                       "): take fewer ranks or microbatches");
}

Box Layout::box_of(const Interval& interval, double y, double height) const {
  return {.x = left + interval.start.count() * pixels_per_second,
          .y = y,
          .width = (interval.end - interval.start).count() * pixels_per_second,
          .height = height};
}

Layout plan_layout(const Schedule& schedule, const Simulation& simulation, Seconds end, double row_extra) {
  constexpr double kShortActionWidth = 22;
  constexpr double kNarrowest = 520;
  constexpr double kWidest = 3000;
  constexpr double kHeightOfAllRows = 600;
  const Seconds action = typical_short_action(schedule, simulation);
  const double wanted = action > Seconds(0) ? kShortActionWidth * (end / action) : 0.0;

  Layout layout = {.left = 64, .top = 74};
  layout.plot_width = std::round(std::clamp(wanted, kNarrowest, kWidest));
  layout.row_height = std::round(std::clamp(kHeightOfAllRows / schedule.shape.ranks, 12.0, 26.0));
  layout.row_pitch = layout.row_height + row_extra + std::max(2.0, std::round(layout.row_height / 8));
  layout.pixels_per_second = end > Seconds(0) ? layout.plot_width / end.count() : 0.0;
  layout.bottom = layout.top + layout.row_pitch * schedule.shape.ranks;
  return layout;
}

std::string heading(const Schedule& schedule) {
  const schedule::PipelineShape& shape = schedule.shape;
  return cat(schedule.name, ": p = ", count_text(shape.ranks, "rank"),
             ", m = ", count_text(shape.microbatches, "microbatch"),
             ", v = ", count_text(shape.chunks_per_rank, "chunk", " per rank"));
}

std::vector<LegendEntry> legend_entries(const Schedule& schedule) {
  std::vector<LegendEntry> entries;
  const int32_t chunks = schedule.shape.chunks_per_rank;
  for (const Op op : kDrawnOps) {
    if (!uses(schedule, op)) continue;
    entries.push_back({.colour = colour_of(op, 0, chunks), .text = cat(to_string(op), " ", name_of(op))});
    if (chunks == 1) continue;
    entries.back().text += ", chunk 0";
    entries.push_back({.colour = colour_of(op, chunks - 1, chunks),
                       .text = cat(chunks > 2 ? "to chunk " : "chunk ", chunks - 1)});
  }
  return entries;
}

std::string draw_head(std::string_view title, const std::vector<LegendEntry>& legend) {
  return cat(
      hatch_definition(),
      text_element(kMargin, 26, attribute("font-size", kTitleFont) + attribute("font-weight", "bold"), title),
      draw_legend(legend, kMargin, 38));
}

double head_width(std::string_view title, const std::vector<LegendEntry>& legend) {
  double width = 0;
  for (const LegendEntry& entry : legend) width += entry_width(entry);
  return 2 * kMargin + std::max(width, text_width(title, kTitleFont));
}

std::string draw_foot(const Layout& layout, std::string_view text) {
  return text_element(kMargin, layout.bottom + 40, attribute("font-size", kFootFont), text);
}

double foot_width(std::string_view text) { return 2 * kMargin + text_width(text, kFootFont); }

std::string draw_time_axis(const Layout& layout, const TimeScale& scale, Seconds end) {
  constexpr double kPixelsPerTick = 70;
  constexpr double kFont = 10;
  std::string lines;
  std::string numbers;
  const auto most = static_cast<int64_t>(layout.plot_width / kPixelsPerTick);
  for (const double tick : axis_ticks(end.count() * scale.factor, most)) {
    const double x = layout.left + tick / scale.factor * layout.pixels_per_second;
    lines += line_element(x, layout.top - 3, x, layout.bottom + 4, {});
    numbers += text_element(x, layout.bottom + 15, {}, number_text(tick));
  }
  const std::string what = scale.unit.empty() ? "time" : cat("time, ", scale.unit);
  return cat("<g", attribute("stroke", "#dcdcdc"), ">\n", lines, "</g>\n<g", attribute("font-size", kFont),
             attribute("text-anchor", "middle"), ">\n", numbers, "</g>\n",
             text_element(layout.left - 8, layout.bottom + 15,
                          attribute("font-size", kFont) + attribute("text-anchor", "end"), what));
}

std::string draw_rank_names(const Layout& layout, int32_t ranks, double row_extra) {
  const double font = std::min(12.0, layout.row_height - 2);
  std::string names;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const double middle = layout.top + layout.row_pitch * rank + row_extra + layout.row_height / 2;
    names += text_element(layout.left - 8, middle + font * 0.36, {}, cat("rank ", rank));
  }
  return cat("<g", attribute("font-size", font), attribute("text-anchor", "end"), ">\n", names, "</g>\n");
}

std::string draw_actions(const Layout& layout, const std::vector<TimedAction>& actions,
                         const schedule::PipelineShape& shape, const TimeScale& scale, double y,
                         double height) {
  constexpr double kLargestFont = 12;
  const std::string widest_number = cat(shape.microbatches - 1);
  std::string boxes;
  std::string numbers;
  for (const TimedAction& timed : actions) {
    const Box box = layout.box_of(timed.interval, y, height);
    const Colour colour = colour_of(timed.action.op, timed.action.chunk, shape.chunks_per_rank);
    boxes +=
        rect_element(box, attribute("fill", to_string(colour)), tip_of(timed, shape.chunks_per_rank, scale));
    const std::string number = cat(timed.action.microbatch);
    // In one size, as far as it can be.
    double font = fitting_font_size(widest_number, box, kLargestFont);
    if (font == 0) font = fitting_font_size(number, box, kLargestFont);
    if (font == 0) continue;
    numbers += text_element(
        box.x + box.width / 2, y + height / 2 + font * 0.36,
        attribute("font-size", font) + attribute("fill", to_string(text_colour_on(colour))), number);
  }
  // Tool tips belong to the boxes: the numbers above them must let the pointer through.
  return cat("<g", attribute("stroke", "#ffffff"), attribute("stroke-width", 0.75), ">\n", boxes, "</g>\n<g",
             attribute("text-anchor", "middle"), attribute("pointer-events", "none"), ">\n", numbers,
             "</g>\n");
}

std::string draw_idle(const Layout& layout, const std::vector<Interval>& gaps, const TimeScale& scale,
                      double y, double height, std::string_view what) {
  if (gaps.empty()) return {};
  std::string boxes;
  for (const Interval& gap : gaps) {
    boxes += rect_element(layout.box_of(gap, y, height), {}, cat(what, ", ", span_text(scale, gap)));
  }
  return cat("<g", attribute("fill", kHatch), ">\n", boxes, "</g>\n");
}

}  // namespace braid::report
