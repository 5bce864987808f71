#include "braid/report/pipeline_drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/action_style.h"
#include "braid/report/flights.h"
#include "braid/report/plot.h"
#include "braid/report/strips.h"

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Interval;
using schedule::Op;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

// In pixels: thin strips and the gap below a strip; the ranks' names and the gap to their right; the column.
constexpr double kThinHeight = 9;
constexpr double kStripGap = 1;
constexpr double kNameFont = 12;
constexpr double kNameGap = 8;
constexpr double kColumnFont = 11;
// Of exchanges in flight, below the row of a rank and below its thin strips.
constexpr double kLaneHeight = 6;
constexpr double kThinLaneHeight = 4;

// How times are printed: `factor` times the seconds, in `unit`, which is empty for relative times.
struct TimeScale {
  double factor = 1;
  std::string_view unit;

  std::string number(Seconds time) const { return number_text(time.count() * factor); }
  std::string text(Seconds time) const { return cat(number(time), unit.empty() ? "" : " ", unit); }
  std::string text(const Interval& span) const { return cat(number(span.start), " to ", text(span.end)); }
};

// In s, ms or µs, whichever suits the longest time.
TimeScale scale_for(Seconds longest) {
  if (longest >= Seconds(1)) return {.factor = 1, .unit = "s"};
  if (longest >= Seconds(1e-3)) return {.factor = 1e3, .unit = "ms"};
  return {.factor = 1e6, .unit = "\u00b5s"};
}

std::string percent_text(double share) { return number_text(100 * share) + "%"; }

// The contents of a document.
struct Picture {
  const Schedule& schedule;
  std::vector<Strip> strips;  // of each rank, from top to bottom; all but the last are thin
  TimeScale scale{};
  std::string title_suffix{};
  std::string idle_legend{};
  std::string footer{};
  // At the right end of each rank's row, below a heading; or none.
  std::vector<std::string> column{};
  std::string column_heading{};
};

// The parts of the gaps of a rank's measured row in which the rank waited for input. `measured` has the same
// intervals as `records`, on the drawing's clock.
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

// Throws ConfigError unless `schedule` is valid, `simulation` has one interval for each of its actions, each
// finite and not ending before its start, and there are few enough of them to draw.
void require_drawable(const Schedule& schedule, const Simulation& simulation) {
  validate(schedule);
  require<ConfigError>(simulation.ranks.size() == schedule.ranks.size(), "schedule ", schedule.name, " has ",
                       counted(std::ssize(schedule.ranks), "rank"), ", but the simulation has ",
                       simulation.ranks.size(), ": pass the simulation of this schedule");
  size_t actions = 0;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const size_t expected = schedule.ranks[rank].size();
    require<ConfigError>(simulation.ranks[rank].size() == expected, "rank ", rank, " has ",
                         counted(static_cast<int64_t>(expected), "action"),
                         ", but the simulation has times of ", simulation.ranks[rank].size(),
                         ": pass the simulation of this schedule");
    for (size_t i = 0; i < expected; ++i) {
      const auto [start, end] = simulation.ranks[rank][i];
      require<ConfigError>(std::isfinite(start.count()) && std::isfinite(end.count()) && start <= end,
                           location(schedule, static_cast<int32_t>(rank), i), " runs from ", start.count(),
                           " to ", end.count(),
                           ": times must be finite and intervals must not end before they start");
      require<ConfigError>(!is_compute(schedule.ranks[rank][i].op) || start >= Seconds(0),
                           location(schedule, static_cast<int32_t>(rank), i), " starts at ", start.count(),
                           ": drawn actions must start at 0 or later");
    }
    actions += expected;
  }
  constexpr size_t kMostActions = 200'000;
  require<ConfigError>(actions <= kMostActions, "schedule ", schedule.name, " has ", actions,
                       " actions, too many to draw (at most ", kMostActions,
                       "): use fewer ranks or microbatches");
}

// Where a drawing's rows and times are, in pixels.
struct Layout {
  Seconds end{0};
  Scale time;  // from seconds
  Box plot;
  Rows rows;
  std::vector<Lane> lanes;  // of each strip
};

// The plot is about as wide as its actions need to be readable, within limits; rows get lower the more ranks
// there are.
Layout plan_layout(const Picture& picture) {
  constexpr double kLeft = 64;
  constexpr double kTop = 74;
  constexpr double kLegendLine = 18;  // for the exchanges
  constexpr double kShortActionWidth = 22;
  constexpr double kNarrowest = 520;
  constexpr double kWidest = 3000;
  constexpr double kHeightOfAllRows = 600;
  const int32_t ranks = picture.schedule.shape.ranks;
  const Seconds end = end_of(picture.strips);
  const Seconds action = typical_short_action(picture.strips.back());
  const double wanted = action > Seconds(0) ? kShortActionWidth * (end / action) : 0.0;
  const double width = std::round(std::clamp(wanted, kNarrowest, kWidest));
  const double height = std::round(std::clamp(kHeightOfAllRows / ranks, 12.0, 26.0));
  const std::vector<Lane> lanes = lanes_of(picture.strips);
  const auto lane_count = static_cast<double>(lanes.size());
  const double top = kTop + (lanes.empty() ? 0 : kLegendLine);
  const double thin_strip = kThinHeight + kStripGap + lane_count * (kThinLaneHeight + kStripGap);
  const double extra = static_cast<double>(picture.strips.size() - 1) * thin_strip;
  const double below = lane_count * (kLaneHeight + kStripGap);
  const double gap = std::max(2.0, std::round(height / 8)) + (extra > 0 ? kStripGap : 0) + 2 * lane_count;
  const double pitch = extra + height + below + gap;
  return {.end = end,
          .time = {.origin = kLeft, .pixels_per_unit = end > Seconds(0) ? width / end.count() : 0.0},
          .plot = {.x = kLeft, .y = top, .width = width, .height = pitch * ranks},
          .rows = {.top = top, .pitch = pitch, .extra = extra, .height = height},
          .lanes = lanes};
}

std::string count_text(int32_t count, std::string_view noun, std::string_view rest = {}) {
  return cat(count, " ", noun, count == 1 ? "" : (noun.ends_with("ch") ? "es" : "s"), rest);
}

// "1F1B: p = 4 ranks, m = 8 microbatches, v = 1 chunk per rank".
std::string heading(const Schedule& schedule) {
  const schedule::PipelineShape& shape = schedule.shape;
  return cat(schedule.name, ": p = ", count_text(shape.ranks, "rank"),
             ", m = ", count_text(shape.microbatches, "microbatch"),
             ", v = ", count_text(shape.chunks_per_rank, "chunk", " per rank"),
             schedule.data.has_sharding ? cat(", sharding stage ", schedule.data.sharding_stage) : "",
             schedule.data.has_dp ? ", dp" : "");
}

// The ops that are drawn, with their chunks, and idle time.
std::vector<LegendEntry> legend_of(const Picture& picture) {
  std::map<Op, Style> drawn;
  for (const Strip& strip : picture.strips) {
    for (const auto& rank : strip.ranks) {
      for (const TimedAction& timed : rank) {
        if (!awaited_by(timed.action.op)) drawn.emplace(timed.action.op, timed.style);
      }
    }
  }
  std::vector<LegendEntry> entries;
  const int32_t chunks = picture.schedule.shape.chunks_per_rank;
  for (const auto& [op, style] : drawn) {
    entries.push_back({.fill = to_string(style.colour), .text = cat(to_string(op), " ", style.name)});
    if (chunks == 1 || !is_compute(op)) continue;
    entries.back().text += ", chunk 0";
    entries.push_back({.fill = to_string(shade(style.colour, chunks - 1, chunks)),
                       .text = cat(chunks > 2 ? "to chunk " : "chunk ", chunks - 1)});
  }
  entries.push_back({.fill = std::string(kHatch), .text = picture.idle_legend});
  return entries;
}

// The exchanges that are in flight below the rows, and the waits for them in the rows.
std::vector<LegendEntry> exchange_legend_of(const Picture& picture) {
  std::set<Op> in_flight;
  std::set<Op> waits;
  for (const Strip& strip : picture.strips) {
    for (const auto& rank : strip.flights) {
      for (const Flight& flight : rank) in_flight.insert(flight.action.op);
    }
    for (const auto& rank : strip.ranks) {
      for (const TimedAction& timed : rank) {
        if (awaited_by(timed.action.op)) waits.insert(timed.action.op);
      }
    }
  }
  std::vector<LegendEntry> entries;
  for (const Op op : {Op::kGather, Op::kReduce, Op::kReduceDp, Op::kNorm, Op::kReduceTied}) {
    if (!in_flight.contains(op)) continue;
    const Style style = *style_of(op);
    entries.push_back({.fill = to_string(style.colour),
                       .text = cat(entries.empty() ? "in flight: " : "", to_string(op), " ", style.name)});
    for (const Op wait : waits) {
      if (awaited_by(wait) != op) continue;
      entries.push_back(
          {.fill = to_string(style_of(wait)->colour), .text = std::string(style_of(wait)->name)});
    }
  }
  return entries;
}

// Below the rows; its unit stands left of the numbers.
std::string draw_time_axis(const Layout& layout, const TimeScale& scale) {
  constexpr double kPixelsPerTick = 70;
  const Box& plot = layout.plot;
  const Box grid = {.x = plot.x, .y = plot.y - 3, .width = plot.width, .height = plot.height + 7};
  const Axis axis = {.scale = layout.time,
                     .end = layout.end.count(),
                     .factor = scale.factor,
                     .most_ticks = static_cast<int64_t>(plot.width / kPixelsPerTick)};
  return draw_axis(axis, grid) +
         text_element(grid.x - kNameGap, grid.bottom() + kNumbersBelow,
                      attribute("font-size", kTickFont) + attribute("text-anchor", "end"),
                      scale.unit.empty() ? "time" : cat("time, ", scale.unit));
}

// What the pointer shows of an action.
std::string tip_of(const Picture& picture, const TimedAction& timed) {
  const auto& [action, style, interval] = timed;
  const std::string time = picture.scale.text(interval);
  const std::string part = part_text(picture.schedule, action);
  if (const std::optional<Op> awaited = awaited_by(action.op)) {
    return cat("waiting for ", to_string(*awaited), part, ", ", time);
  }
  if (action.op == Op::kUpdate) return cat(to_string(action.op), part, ", ", time);
  std::string in_hand;
  if (const auto weight = schedule::weight_action(action); action.weight.exists()) {
    in_hand = cat(" with W", weight->microbatch, part_text(picture.schedule, *weight), " in hand");
  }
  return cat(to_string(action.op), action.microbatch, part, in_hand, ", ", time);
}

Box box_of(const Interval& interval, const Scale& time, double y, double height) {
  return {.x = time.at(interval.start.count()),
          .y = y,
          .width = (interval.end - interval.start).count() * time.pixels_per_unit,
          .height = height};
}

// One rank's part of a strip, with the microbatch in each box where it is readable.
std::string draw_boxes_of(const Picture& picture, const Strip& strip, size_t rank, const Scale& time,
                          double y, double height) {
  const schedule::PipelineShape& shape = picture.schedule.shape;
  std::vector<RowBox> boxes;
  for (const Interval& idle : strip.idle[rank]) {
    boxes.push_back({.box = box_of(idle, time, y, height),
                     .colour = {},
                     .tip = cat(strip.idle_tip, ", ", picture.scale.text(idle))});
  }
  for (const TimedAction& timed : strip.ranks[rank]) {
    const Action& action = timed.action;
    constexpr double kNarrowestWait = 0.5;
    Box box = box_of(timed.interval, time, y, height);
    if (awaited_by(action.op)) {
      const RowBox wait = {.box = box, .colour = timed.style.colour, .tip = tip_of(picture, timed)};
      if (box.width >= kNarrowestWait) boxes.push_back(wait);
      continue;
    }
    if (action.weight.exists()) {
      // Below the action that it runs within.
      const auto weight = schedule::weight_action(action);
      box.height = height / 2;
      Box below = box;
      below.y += box.height;
      const std::optional<Style> weight_style = style_of(weight->op);
      boxes.push_back(
          {.box = below,
           .colour = shade(weight_style->colour, weight->chunk, shape.chunks_per_rank),
           .tip = cat("W", weight->microbatch, " within ", to_string(action.op), action.microbatch)});
    }
    boxes.push_back({.box = box,
                     .colour = shade(timed.style.colour, action.chunk, shape.chunks_per_rank),
                     .tip = tip_of(picture, timed),
                     .label = is_compute(action.op) ? cat(action.microbatch) : ""});
  }
  return draw_boxes(boxes, cat(shape.microbatches - 1));
}

// What one rank has in flight in a lane. Where one starts while another is in flight, as measured ones may,
// it covers the rest of the other.
std::string draw_flights_of(const Picture& picture, const Strip& strip, size_t rank, Lane lane,
                            const Scale& time, double y, double height) {
  std::vector<RowBox> boxes;
  for (const Flight& flight : strip.flights[rank]) {
    if (lane_of(flight.action.op) != lane) continue;
    boxes.push_back({.box = box_of(flight.interval, time, y, height),
                     .colour = style_of(flight.action.op)->colour,
                     .tip = cat(to_string(flight.action.op), part_text(picture.schedule, flight.action),
                                " in flight, ", picture.scale.text(flight.interval))});
  }
  return draw_boxes(boxes, "");
}

std::string draw(const Picture& picture) {
  const Layout layout = plan_layout(picture);
  const Box& plot = layout.plot;
  Drawing drawing(heading(picture.schedule) + picture.title_suffix, legend_of(picture));
  if (!layout.lanes.empty()) drawing.add_second_legend(exchange_legend_of(picture));
  drawing.add(draw_time_axis(layout, picture.scale), plot.right());
  std::vector<std::string> names;
  for (int32_t rank = 0; rank < picture.schedule.shape.ranks; ++rank) names.push_back(cat("rank ", rank));
  drawing.add(
      draw_row_texts(layout.rows, plot.x - kNameGap, kNameFont, names, attribute("text-anchor", "end")));
  for (size_t rank = 0; rank < names.size(); ++rank) {
    double y = layout.rows.y(rank);
    for (const Strip& strip : picture.strips) {
      const bool is_last = &strip == &picture.strips.back();
      const double height = is_last ? layout.rows.height : kThinHeight;
      drawing.add(draw_boxes_of(picture, strip, rank, layout.time, y, height));
      y += height + kStripGap;
      const double lane_height = is_last ? kLaneHeight : kThinLaneHeight;
      for (const Lane lane : layout.lanes) {
        drawing.add(draw_flights_of(picture, strip, rank, lane, layout.time, y, lane_height));
        y += lane_height + kStripGap;
      }
    }
  }
  if (!picture.column.empty()) {
    const double x = plot.right() + kMargin;
    double width = text_width(picture.column_heading, kColumnFont);
    for (const std::string& text : picture.column) width = std::max(width, text_width(text, kColumnFont));
    drawing.add(draw_row_texts(layout.rows, x, kColumnFont, picture.column, {}, picture.column_heading),
                x + width);
  }
  drawing.add_footer(plot.bottom(), picture.footer);
  return drawing.svg(plot.bottom());
}

std::string peak_text(const DrawOptions& options, double peak) {
  return options.peak_unit == "bytes" && peak >= 0 ? bytes_text(static_cast<uint64_t>(peak)) : brief(peak, 5);
}

std::string peak_heading(const DrawOptions& options) {
  return options.peak_unit.empty() || options.peak_unit == "bytes" ? "peak" : cat("peak ", options.peak_unit);
}

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& simulation, const DrawOptions& options) {
  require_drawable(schedule, simulation);
  require<ConfigError>(options.peaks.empty() || options.peaks.size() == schedule.ranks.size(),
                       "a drawing of ", counted(std::ssize(schedule.ranks), "rank"),
                       " needs one peak per rank or none, got ", options.peaks.size());
  Picture picture = {
      .schedule = schedule, .strips = {strip_of(schedule, simulation, "idle")}, .idle_legend = "idle"};
  Strip& strip = picture.strips.front();
  add_flights(strip, schedule, simulation, options.durations ? &*options.durations : nullptr);
  if (options.time_unit == TimeUnit::kSeconds) picture.scale = scale_for(end_of(picture.strips));
  picture.footer = cat("step time ", picture.scale.text(simulation.step_time), ", bubble rate ",
                       percent_text(simulation.bubble_rate));
  if (schedule.data.is_on()) {
    picture.footer +=
        cat("; a rank waits for exchanges up to ", picture.scale.text(longest_exchange_wait(strip)));
  }
  for (const double peak : options.peaks) picture.column.push_back(peak_text(options, peak));
  picture.column_heading = peak_heading(options);
  return draw(picture);
}

std::string draw_planned_over_measured(const Timeline& timeline, const Simulation& planned,
                                       const schedule::Durations* durations) {
  const Schedule& schedule = timeline.schedule;
  Simulation measured = measured_simulation(timeline);
  require_drawable(schedule, planned);
  require_drawable(schedule, measured);
  Simulation plan = from_first_start(schedule, planned);
  // Both begin with their first F, or as much later as exchanges before it take in either.
  const Seconds lead = std::max(lead_of(schedule, plan), lead_of(schedule, measured));
  delay(plan, lead);
  delay(measured, lead);
  Picture picture = {
      .schedule = schedule,
      .strips = {strip_of(schedule, plan, "planned idle"), strip_of(schedule, measured, "waiting")},
      .title_suffix = ", planned above measured",
      .idle_legend = "planned idle, measured waiting"};
  add_flights(picture.strips.front(), schedule, plan, durations);
  add_flights(picture.strips.back(), schedule, measured, nullptr);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    picture.strips.back().idle[rank] = waits_of(timeline.ranks[rank], measured.ranks[rank]);
  }
  picture.scale = scale_for(end_of(picture.strips));
  const TimeScale& scale = picture.scale;
  const std::string ratio =
      planned.step_time > Seconds(0)
          ? cat(" (", number_text(measured.step_time / planned.step_time), " times the plan)")
          : "";
  picture.footer = cat("step time: planned ", scale.text(planned.step_time), ", measured ",
                       scale.text(measured.step_time), ratio, "; bubble rate: planned ",
                       percent_text(planned.bubble_rate), ", measured ", percent_text(measured.bubble_rate));
  if (schedule.data.is_on()) {
    picture.footer += cat("; a rank waits for exchanges: planned up to ",
                          scale.text(longest_exchange_wait(picture.strips.front())), ", measured up to ",
                          scale.text(longest_exchange_wait(picture.strips.back())));
  }
  return draw(picture);
}

}  // namespace braid::report
