#include "braid/report/planned_over_measured.h"

#include <gtest/gtest.h>

#include <map>

#include "braid/base/error.h"
#include "braid/report/timeline_samples.h"
#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

using schedule::Durations;
using schedule::Seconds;

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

TEST(PlannedOverMeasured, MisuseIsRefused) {
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
