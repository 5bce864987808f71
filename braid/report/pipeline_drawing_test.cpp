#include "braid/report/pipeline_drawing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/svg.h"
#include "braid/report/timeline_samples.h"
#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

using schedule::Durations;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

// The intervals of the boxes of one rank, in the order in which they are drawn.
std::vector<schedule::Interval> drawn_intervals(const Schedule& schedule, const Simulation& simulation,
                                                size_t rank) {
  std::vector<schedule::Interval> intervals;
  for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
    if (is_compute(schedule.ranks[rank][i].op)) intervals.push_back(simulation.ranks[rank][i]);
  }
  return intervals;
}

bool is_idle(const TippedBox& box) { return box.tip.starts_with("idle"); }

// The boxes of each rank, from top to bottom; idle ones and actions.
std::vector<std::vector<TippedBox>> rows_of(const std::vector<XmlElement>& elements) {
  std::map<double, std::vector<TippedBox>> rows;
  for (const TippedBox& box : tipped_boxes(elements)) rows[box.y].push_back(box);
  std::vector<std::vector<TippedBox>> sorted;
  for (auto& [y, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

void expect_to_scale(const Schedule& schedule, const Simulation& simulation) {
  constexpr double kRounding = 0.0101;  // each coordinate to 0.005
  const auto elements = XmlReader(draw_svg(schedule, simulation, {})).read();
  const auto rows = rows_of(elements);
  ASSERT_EQ(rows.size(), schedule.ranks.size());
  const double width = elements[0].number("width");
  double pixels_per_second = 0;
  double previous_bottom = 0;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::vector<TippedBox> row = rows[rank];
    EXPECT_GE(row[0].y, previous_bottom);
    previous_bottom = row[0].y + row[0].height;
    const auto intervals = drawn_intervals(schedule, simulation, rank);
    size_t action = 0;
    for (const TippedBox& box : row) {
      if (is_idle(box)) continue;
      ASSERT_LT(action, intervals.size());
      const auto [start, end] = intervals[action++];
      if (pixels_per_second == 0) pixels_per_second = box.width / (end - start).count();
      EXPECT_NEAR(box.width, (end - start).count() * pixels_per_second, box.width * 1e-3 + kRounding);
      EXPECT_NEAR(box.x, 64 + start.count() * pixels_per_second, box.x * 1e-3 + kRounding);
    }
    EXPECT_EQ(action, intervals.size());
    std::sort(row.begin(), row.end(), [](const TippedBox& a, const TippedBox& b) { return a.x < b.x; });
    for (size_t i = 1; i < row.size(); ++i) {
      EXPECT_NEAR(row[i].x, row[i - 1].x + row[i - 1].width, 2 * kRounding)
          << "actions and idle time fill the row without overlap: " << row[i].tip;
    }
    EXPECT_FALSE(is_idle(row.front())) << "idle time is between actions";
    EXPECT_FALSE(is_idle(row.back()));
    EXPECT_LE(row.back().x + row.back().width, width + kRounding);
  }
  EXPECT_LE(previous_bottom, elements[0].number("height"));
}

TEST(DrawSvg, BoxesAreToScaleFillTheRowsAndStayInside) {
  const Durations uneven = {
      .stages = {{.forward = Seconds(0.7), .backward_input = Seconds(1.1), .backward_weight = Seconds(0.37)}},
      .communication = Seconds(0.21)};
  for (int32_t ranks = 1; ranks <= 5; ++ranks) {
    for (const int32_t microbatches : {1, 2, 3, 7}) {
      for (const std::string_view mode : {"FThenB", "1F1B"}) {
        const Schedule schedule = schedule::generate(mode, {.ranks = ranks, .microbatches = microbatches});
        expect_to_scale(schedule, simulate(schedule, {}));
        expect_to_scale(schedule, simulate(schedule, uneven));
        expect_to_scale(lower(schedule, {}), simulate(lower(schedule, {}), uneven));
      }
    }
  }
  expect_to_scale(v_schedule(), simulate(v_schedule(), uneven));
}

TEST(DrawSvg, GoldenDocument) {
  const Schedule schedule = schedule::generate("1F1B", {.ranks = 2, .microbatches = 2});
  EXPECT_EQ(draw_svg(schedule, simulate(schedule, {}), {.peaks = {2, 1}}),
            R"svg(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="722" height="186" viewBox="0 0 722 186" font-family="Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif" font-size="12" fill="#24292f">
<title>1F1B: p = 2 ranks, m = 2 microbatches, v = 1 chunk per rank</title>
<rect x="0" y="0" width="722" height="186" fill="#ffffff"/>
<defs><pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 0H6V6H0Z" fill="#f2f2f2"/><path d="M-1 1L1 -1M0 6L6 0M5 7L7 5" stroke="#c8c8c8"/></pattern></defs>
<text x="16" y="26" font-size="16" font-weight="bold">1F1B: p = 2 ranks, m = 2 microbatches, v = 1 chunk per rank</text>
<rect x="16" y="38" width="12" height="12" fill="#2f4fb0"/>
<text x="33" y="48" font-size="11">F forward</text>
<rect x="110.4" y="38" width="12" height="12" fill="#e69f00"/>
<text x="127.4" y="48" font-size="11">B backward (both gradients)</text>
<rect x="323.6" y="38" width="12" height="12" fill="url(#idle)"/>
<text x="340.6" y="48" font-size="11">idle</text>
<g stroke="#dcdcdc">
<line x1="64" y1="71" x2="64" y2="136"/>
<line x1="179.56" y1="71" x2="179.56" y2="136"/>
<line x1="295.11" y1="71" x2="295.11" y2="136"/>
<line x1="410.67" y1="71" x2="410.67" y2="136"/>
<line x1="526.22" y1="71" x2="526.22" y2="136"/>
</g>
<g font-size="10" text-anchor="middle">
<text x="64" y="147">0</text>
<text x="179.56" y="147">2</text>
<text x="295.11" y="147">4</text>
<text x="410.67" y="147">6</text>
<text x="526.22" y="147">8</text>
</g>
<text x="56" y="147" font-size="10" text-anchor="end">time</text>
<g font-size="12" text-anchor="end">
<text x="56" y="91.32">rank 0</text>
<text x="56" y="120.32">rank 1</text>
</g>
<g fill="url(#idle)">
<rect x="179.56" y="74" width="115.56" height="26"><title>idle, 2 to 4</title></rect>
<rect x="410.67" y="74" width="57.78" height="26"><title>idle, 6 to 7</title></rect>
</g>
<g stroke="#ffffff" stroke-width="0.75">
<rect x="64" y="74" width="57.78" height="26" fill="#2f4fb0"><title>F0, 0 to 1</title></rect>
<rect x="121.78" y="74" width="57.78" height="26" fill="#2f4fb0"><title>F1, 1 to 2</title></rect>
<rect x="295.11" y="74" width="115.56" height="26" fill="#e69f00"><title>B0, 4 to 6</title></rect>
<rect x="468.44" y="74" width="115.56" height="26" fill="#e69f00"><title>B1, 7 to 9</title></rect>
</g>
<g text-anchor="middle" pointer-events="none">
<text x="92.89" y="91.32" font-size="12" fill="#ffffff">0</text>
<text x="150.67" y="91.32" font-size="12" fill="#ffffff">1</text>
<text x="352.89" y="91.32" font-size="12" fill="#000000">0</text>
<text x="526.22" y="91.32" font-size="12" fill="#000000">1</text>
</g>
<g stroke="#ffffff" stroke-width="0.75">
<rect x="121.78" y="103" width="57.78" height="26" fill="#2f4fb0"><title>F0, 1 to 2</title></rect>
<rect x="179.56" y="103" width="115.56" height="26" fill="#e69f00"><title>B0, 2 to 4</title></rect>
<rect x="295.11" y="103" width="57.78" height="26" fill="#2f4fb0"><title>F1, 4 to 5</title></rect>
<rect x="352.89" y="103" width="115.56" height="26" fill="#e69f00"><title>B1, 5 to 7</title></rect>
</g>
<g text-anchor="middle" pointer-events="none">
<text x="150.67" y="120.32" font-size="12" fill="#ffffff">0</text>
<text x="237.33" y="120.32" font-size="12" fill="#000000">0</text>
<text x="324" y="120.32" font-size="12" fill="#ffffff">1</text>
<text x="410.67" y="120.32" font-size="12" fill="#000000">1</text>
</g>
<g font-size="11">
<text x="600" y="67">peak activations</text>
<text x="600" y="90.96">2</text>
<text x="600" y="119.96">1</text>
</g>
<text x="16" y="172" font-size="12">step time 9, bubble rate 33.33%</text>
</svg>
)svg");
}

TEST(DrawSvg, ManyRanksStaySmallEnough) {
  const Schedule schedule = schedule::generate("1F1B", {.ranks = 32, .microbatches = 64});
  const std::string svg = draw_svg(schedule, simulate(schedule, {}), {});
  EXPECT_LT(svg.size(), 1'000'000u);
  const auto elements = XmlReader(svg).read();
  EXPECT_LE(elements[0].number("width"), 3200);
  EXPECT_LE(elements[0].number("height"), 850);
  int64_t numbers = 0;
  for (const std::string& text : texts_of(elements)) {
    if (text == "63") ++numbers;
  }
  EXPECT_EQ(numbers, 64) << "each rank's last forward and backward still show their number";
}

TEST(DrawSvg, NumbersThatDoNotFitAppearInTooltipsOnly) {
  const Schedule schedule = schedule::generate("FThenB", {.ranks = 1, .microbatches = 1000});
  const auto elements = XmlReader(draw_svg(schedule, simulate(schedule, {}), {})).read();
  const auto texts = texts_of(elements);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "999"), 0);
  const auto boxes = tipped_boxes(elements);
  ASSERT_EQ(boxes.size(), 2000u);
  EXPECT_EQ(boxes[999].tip, "F999, 999 to 1000");
}

TEST(DrawSvg, ChunksHaveShadesAndTooltips) {
  const auto elements = XmlReader(draw_svg(v_schedule(), simulate(v_schedule(), {}), {})).read();
  std::set<std::string> fills;
  for (const XmlElement& element : elements) {
    if (element.name == "title" && element.text == "F0 chunk 1, 3 to 4") {
      fills.insert(elements[static_cast<size_t>(element.parent)].attributes.at("fill"));
    }
    if (element.name == "title" && element.text == "F0 chunk 0, 0 to 1") {
      fills.insert(elements[static_cast<size_t>(element.parent)].attributes.at("fill"));
    }
  }
  EXPECT_EQ(fills.size(), 2u);
  const auto texts = texts_of(elements);
  EXPECT_EQ(texts[0], "V: p = 2 ranks, m = 1 microbatch, v = 2 chunks per rank");
  EXPECT_EQ(std::vector<std::string>(texts.begin() + 1, texts.begin() + 8),
            (std::vector<std::string>{"F forward, chunk 0", "chunk 1", "I input gradient, chunk 0", "chunk 1",
                                      "W weight gradient, chunk 0", "chunk 1", "idle"}));
  EXPECT_EQ(texts.back(), "step time 9, bubble rate 33.33%");
}

TEST(DrawSvg, AWeightInHandIsBelowItsAction) {
  const Schedule schedule = {.name = "by hand",
                             .shape = {.microbatches = 2},
                             .ranks = {schedule::parse_actions("F0 F1 I0 I1+W0 W1")}};
  const std::string svg = draw_svg(schedule, simulate(schedule, {}), {});
  EXPECT_NE(svg.find("<title>I1 with W0 in hand, 3 to 5</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>W0 within I1</title>"), std::string::npos) << svg;
}

TEST(DrawSvg, SecondsAreInASuitableUnit) {
  const Schedule schedule = schedule::generate("1F1B", {.ranks = 1, .microbatches = 1});
  const auto last_text = [&](double second) {
    const Durations durations = {.stages = {{Seconds(second), Seconds(second), Seconds(second)}}};
    return texts_of(
               XmlReader(draw_svg(schedule, simulate(schedule, durations), {.time_unit = TimeUnit::kSeconds}))
                   .read())
        .back();
  };
  EXPECT_EQ(last_text(0.5), "step time 1.5 s, bubble rate 0%");
  EXPECT_EQ(last_text(0.01), "step time 30 ms, bubble rate 0%");
  EXPECT_EQ(last_text(2e-5), "step time 60 \u00b5s, bubble rate 0%");
}

TEST(DrawSvg, PeaksStandAtTheirRows) {
  const Schedule schedule = schedule::generate("1F1B", {.ranks = 2, .microbatches = 2});
  const auto texts = [&](const DrawOptions& options) {
    return texts_of(XmlReader(draw_svg(schedule, simulate(schedule, {}), options)).read());
  };
  const auto has = [](const std::vector<std::string>& all, std::string_view text) {
    return std::find(all.begin(), all.end(), text) != all.end();
  };
  const auto bytes = texts({.peaks = {3.0 * (1 << 30), 512}, .peak_unit = "bytes"});
  EXPECT_TRUE(has(bytes, "peak"));
  EXPECT_TRUE(has(bytes, "3.00 GiB"));
  EXPECT_TRUE(has(bytes, "512 B"));
  const auto others = texts({.peaks = {31, 17}, .peak_unit = "<units>"});
  EXPECT_TRUE(has(others, "peak <units>"));
  EXPECT_TRUE(has(others, "31"));
  EXPECT_FALSE(has(texts({}), "peak activations"));
}

TEST(DrawSvg, NamesAreEscapedAndActionsWithoutDurationAreNotDrawn) {
  Schedule schedule = schedule::generate("1F1B", {.ranks = 1, .microbatches = 1});
  schedule.name = "<script>\"&\xff";
  const Durations none = {.stages = {{Seconds(0), Seconds(0), Seconds(0)}}};
  const auto elements = XmlReader(draw_svg(schedule, simulate(schedule, none), {})).read();
  EXPECT_EQ(elements[1].text, "<script>\"&\uFFFD: p = 1 rank, m = 1 microbatch, v = 1 chunk per rank");
  EXPECT_TRUE(tipped_boxes(elements).empty());
}

TEST(DrawSvg, MisuseIsRejected) {
  const Schedule schedule = schedule::generate("1F1B", {.ranks = 2, .microbatches = 2});
  const Simulation simulation = simulate(schedule, {});
  const auto error_of = [&](const Simulation& times, const DrawOptions& options) -> std::string {
    try {
      draw_svg(schedule, times, options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of(simulation, {.peaks = {1, 2, 3}}),
            "a drawing of 2 ranks needs one peak per rank or none, got 3");
  Simulation wrong = simulation;
  wrong.ranks.pop_back();
  EXPECT_EQ(error_of(wrong, {}),
            "schedule 1F1B has 2 ranks, but the simulation has 1: pass the simulation of this schedule");
  wrong = simulation;
  wrong.ranks[1].pop_back();
  EXPECT_EQ(error_of(wrong, {}),
            "rank 1 has 4 actions, but the simulation has times of 3: pass the simulation of this schedule");
  wrong = simulation;
  wrong.ranks[0][1].end = Seconds(0.5);
  EXPECT_EQ(error_of(wrong, {}),
            "schedule 1F1B, rank 0, position 1 (F1) runs from 1 to 0.5: times must be finite and intervals "
            "must not end before they start");
  wrong.ranks[0][1].end = Seconds(std::numeric_limits<double>::infinity());
  EXPECT_NE(error_of(wrong, {}).find("must be finite"), std::string::npos);
  wrong = simulation;
  wrong.ranks[0][0].start = Seconds(-1);
  EXPECT_EQ(error_of(wrong, {}),
            "schedule 1F1B, rank 0, position 0 (F0) starts at -1: drawn actions must start at 0 or later");
  const Schedule large = schedule::generate("FThenB", {.ranks = 1, .microbatches = 100'001});
  try {
    draw_svg(large, simulate(large, {}), {});
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "schedule FThenB has 200002 actions, too many to draw (at most 200000): use fewer ranks or "
                 "microbatches");
  }
}

// 1F1B on 2 ranks with sharding stage 1 and dp, exchanges that take time and updates.
struct Exchanging {
  Schedule schedule = lower(schedule::generate("1F1B", {.ranks = 2, .microbatches = 3}),
                            {.data = {.has_sharding = true,
                                      .has_dp = true,
                                      .sharding_stage = 1,
                                      .segments = std::vector<int32_t>(2, 2)}});
  Durations durations = {
      .stages = {{.update = Seconds(1)}},
      .segments = std::vector(2, std::vector<schedule::SegmentTimes>(2, {.share = 0.5,
                                                                         .gather = Seconds(0.25),
                                                                         .reduce = Seconds(0.5),
                                                                         .reduce_dp = Seconds(0.25)}))};
  Simulation simulation = simulate(schedule, durations);
};

TEST(DrawSvg, ExchangesAreInLanesBelowTheRowThatWaitsForThem) {
  const Exchanging step;
  const auto elements =
      XmlReader(draw_svg(step.schedule, step.simulation, {.durations = step.durations})).read();
  std::map<std::string, int> in_flight;
  std::map<std::string, int> waits;
  double row_bottom = 0;
  std::vector<TippedBox> lanes;
  for (const TippedBox& box : tipped_boxes(elements)) {
    EXPECT_LE(box.x + box.width, elements[0].number("width"));
    EXPECT_LE(box.y + box.height, elements[0].number("height"));
    const bool flies = box.tip.find(" in flight, ") != std::string::npos;
    if (flies) {
      ++in_flight[box.tip.substr(0, box.tip.find(' '))];
      EXPECT_GE(box.y, row_bottom) << box.tip;
      for (const TippedBox& other : lanes) {
        EXPECT_FALSE(braid::report::overlap({other.x, other.y, other.width, other.height},
                                            {box.x + 0.02, box.y, box.width - 0.04, box.height}))
            << box.tip << " over " << other.tip;
      }
      lanes.push_back(box);
    } else {
      row_bottom = box.y + box.height;
    }
    if (box.tip.starts_with("waiting for ")) ++waits[split(box.tip, ' ')[2]];
  }
  // Rank 1 ends its last backward first: it waits for the norm of rank 0.
  EXPECT_EQ(in_flight,
            (std::map<std::string, int>{{"GATHER", 4}, {"NORM", 1}, {"REDUCE", 4}, {"REDUCE_DP", 4}}));
  EXPECT_EQ(waits["GATHER"], 2) << "of the last segment of each rank: nothing is left to hide it";
  EXPECT_EQ(waits["REDUCE_DP"], 2);
  const auto texts = texts_of(elements);
  EXPECT_EQ(texts[0], "1F1B: p = 2 ranks, m = 3 microbatches, v = 1 chunk per rank, sharding stage 1, dp");
  for (const char* text : {"in flight: GATHER weights, over sharding", "REDUCE gradients, over sharding",
                           "REDUCE_DP gradients, over dp", "NORM of all ranks", "UPDATE of the weights"}) {
    EXPECT_EQ(std::count(texts.begin(), texts.end(), text), 1) << text;
  }
  EXPECT_TRUE(texts.back().ends_with("; a rank waits for exchanges up to 1")) << texts.back();
}

TEST(DrawSvg, WithoutDataAxesOrTimesNothingIsInFlight) {
  const Schedule lowered = lower(schedule::generate("1F1B", {.ranks = 2, .microbatches = 3}), {});
  const Durations durations = {.stages = {{.update = Seconds(1)}}, .norm_exchange = Seconds(1)};
  const std::string plain = draw_svg(lowered, simulate(lowered, durations), {.durations = durations});
  EXPECT_EQ(plain.find("in flight"), std::string::npos);
  EXPECT_EQ(plain.find("UPDATE"), std::string::npos);
  const Exchanging step;
  EXPECT_EQ(draw_svg(step.schedule, simulate(step.schedule, {}), {.durations = Durations{}}).find("GATHER"),
            std::string::npos);
}

TEST(PlannedOverMeasured, ExchangesBeginTogetherAndAreBelowBothRows) {
  Exchanging step;
  step.schedule = lower(schedule::generate("1F1B", {.ranks = 2, .microbatches = 3}),
                        {.data = {.has_sharding = true, .sharding_stage = 3, .segments = {2, 2}}});
  const Simulation planned = simulate(step.schedule, step.durations);
  const Timeline timeline = undisturbed(step.schedule, planned, Seconds(64));
  const auto elements = XmlReader(draw_planned_over_measured(timeline, planned, &step.durations)).read();
  std::map<std::string, std::vector<double>> first;  // by tip, without the time
  std::set<double> lanes;
  for (const TippedBox& box : tipped_boxes(elements)) {
    EXPECT_GE(box.x, 63.99) << box.tip;
    if (box.tip.find(" in flight, ") == std::string::npos) continue;
    lanes.insert(box.y);
    first[box.tip.substr(0, box.tip.find(" in flight"))].push_back(box.x);
  }
  EXPECT_EQ(lanes.size(), 2u * 2 + 2) << "sharding of 2 ranks, planned and measured, and the norm of one";
  const std::vector<double>& gathers = first["GATHER segment 0"];
  EXPECT_NEAR(gathers.front(), 64, 0.011) << "before the first F, which is drawn where it ends";
  EXPECT_TRUE(texts_of(elements).back().find("; a rank waits for exchanges: planned up to ") !=
              std::string::npos);
}

TEST(PlannedOverMeasured, AnUndisturbedStepLiesUnderItsPlan) {
  const auto schedule = lower(schedule::generate("1F1B", {.ranks = 3, .microbatches = 4}), {});
  const auto simulation = simulate(schedule, {});
  const Timeline timeline = undisturbed(schedule, simulation, Seconds(64));
  const auto elements = XmlReader(draw_planned_over_measured(timeline, simulation)).read();
  std::map<double, std::vector<TippedBox>> rows;
  for (const TippedBox& box : tipped_boxes(elements)) {
    if (!box.tip.starts_with("waiting") && !box.tip.starts_with("planned idle")) rows[box.y].push_back(box);
    EXPECT_LE(box.x + box.width, elements[0].number("width"));
  }
  ASSERT_EQ(rows.size(), 6u);
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    const auto& planned = row->second;
    const auto& measured = (++row)->second;
    EXPECT_LE(planned[0].y + planned[0].height, measured[0].y);
    EXPECT_LT(planned[0].height, measured[0].height);
    ASSERT_EQ(planned.size(), measured.size());
    for (size_t i = 0; i < planned.size(); ++i) {
      EXPECT_EQ(planned[i].x, measured[i].x);
      EXPECT_EQ(planned[i].width, measured[i].width);
      EXPECT_EQ(planned[i].tip, measured[i].tip);
    }
  }
  EXPECT_EQ(
      texts_of(elements).back(),
      "step time: planned 18 s, measured 18 s (1 times the plan); bubble rate: planned 33.33%, measured "
      "33.33%");
}

TEST(PlannedOverMeasured, WaitsAreShadedFromTheFirstActionOn) {
  const auto schedule = schedule::generate("1F1B", {.ranks = 2, .microbatches = 1});
  // Rank 1 waits for its first input, which is no bubble; rank 0 spends 1 s of the 4 until B on other things.
  Timeline timeline = {.schedule = schedule};
  timeline.ranks = {{{{.op = schedule::Op::kForward}, Seconds(10), Seconds(11), Seconds(12)},
                     {{.op = schedule::Op::kBackward}, Seconds(13), Seconds(16), Seconds(18)}},
                    {{{.op = schedule::Op::kForward}, Seconds(10), Seconds(13), Seconds(14)},
                     {{.op = schedule::Op::kBackward}, Seconds(14), Seconds(14), Seconds(16)}}};
  const auto elements = XmlReader(draw_planned_over_measured(timeline, simulate(schedule, {}))).read();
  std::vector<std::string> tips;
  for (const TippedBox& box : tipped_boxes(elements)) tips.push_back(box.tip);
  EXPECT_EQ(tips, (std::vector<std::string>{"planned idle, 1 to 4 s", "F0, 0 to 1 s", "B0, 4 to 6 s",
                                            "waiting, 2 to 5 s", "F0, 0 to 1 s", "B0, 5 to 7 s",
                                            "F0, 1 to 2 s", "B0, 2 to 4 s", "F0, 2 to 3 s", "B0, 3 to 5 s"}));
  EXPECT_EQ(texts_of(elements).back(),
            "step time: planned 6 s, measured 7 s (1.17 times the plan); bubble rate: planned 50%, measured "
            "57.14%");
}

TEST(PlannedOverMeasured, MisuseIsRejected) {
  const Timeline timeline = slowing_step(2, 2);
  const auto other = schedule::generate("1F1B", {.ranks = 2, .microbatches = 2});
  EXPECT_THROW(draw_planned_over_measured(timeline, simulate(other, {})), ConfigError)
      << "a simulation of the schedule without messages";
  Timeline damaged = timeline;
  damaged.ranks[0].pop_back();
  EXPECT_THROW(draw_planned_over_measured(damaged, simulate(timeline.schedule, {})), DataError);
}

}  // namespace
}  // namespace braid::report
