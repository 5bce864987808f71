#include "braid/schedule/simulate.h"

#include <gtest/gtest.h>

#include <limits>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/published_numbers.h"

namespace braid::schedule {
namespace {

TEST(Simulate, PublishedBubbleRates) {
  for (const PublishedSetting& setting : kPublishedSettings) {
    SCOPED_TRACE(testing::Message() << setting.model << " m " << setting.microbatches);
    const auto expect_rate = [&](std::string_view mode, std::string_view rate) {
      const Schedule schedule =
          generate(mode, {.ranks = setting.ranks, .microbatches = setting.microbatches});
      const Durations durations = durations_of(setting);
      EXPECT_EQ(fixed(simulate(schedule, durations).bubble_rate, 4), rate) << mode;
      EXPECT_EQ(fixed(simulate(lower(schedule, {}), durations).bubble_rate, 4), rate)
          << mode << " with messages";
    };
    expect_rate("1F1B", setting.bubble_1f1b);
    expect_rate("ZBH1", setting.bubble_zb_h1);
    expect_rate("ZBH2", setting.bubble_zb_h2);
  }
}

TEST(Simulate, StartsAndEndsOfASmallPipeline) {
  const Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 1});
  const Durations durations = {
      .stages = {{Seconds(1), Seconds(2), Seconds(4)}, {Seconds(8), Seconds(16), Seconds(32)}},
      .communication = Seconds(0.5)};
  const Simulation simulation = simulate(schedule, durations);
  EXPECT_EQ(simulation.ranks[0],
            (std::vector<Interval>{{Seconds(0), Seconds(1)}, {Seconds(58), Seconds(64)}}));
  EXPECT_EQ(simulation.ranks[1],
            (std::vector<Interval>{{Seconds(1.5), Seconds(9.5)}, {Seconds(9.5), Seconds(57.5)}}));
  EXPECT_EQ(simulation.step_time, Seconds(64));
  EXPECT_EQ(simulation.longest_span, Seconds(64));
  EXPECT_EQ(simulation.bubble_rate, 8.0 / 64.0);
  EXPECT_EQ(simulation.peak_live_activations, (std::vector<int32_t>{1, 1}));
}

TEST(Simulate, SplitBackwardSendsBeforeTheWeightGradient) {
  Schedule schedule = {.shape = {.ranks = 2},
                       .ranks = {parse_actions("F0 I0 W0"), parse_actions("F0 I0 W0")}};
  EXPECT_EQ(simulate(schedule, {}).step_time, Seconds(5));
  schedule.ranks[1] = parse_actions("F0 B0");
  EXPECT_EQ(simulate(schedule, {}).step_time, Seconds(6));
}

TEST(Simulate, HandOverOnOneRankIsFree) {
  const Schedule v = {.shape = {.ranks = 2, .chunks_per_rank = 2},
                      .placement = Placement::kV,
                      .ranks = {parse_actions("F0 F0c1 B0c1 B0"), parse_actions("F0 F0c1 B0c1 B0")}};
  // 4 stages of 3 seconds one after another, and 4 messages of 10.
  EXPECT_EQ(simulate(v, {.communication = Seconds(10)}).step_time, Seconds(52));
}

TEST(Simulate, NothingThatTakesTimeHasNoBubble) {
  const StageTimes none = {Seconds(0), Seconds(0), Seconds(0)};
  const Simulation simulation =
      simulate(generate("1F1B", {.ranks = 3, .microbatches = 2}), {.stages = {none}});
  EXPECT_EQ(simulation.step_time, Seconds(0));
  EXPECT_EQ(simulation.bubble_rate, 0.0);
}

TEST(SimulateRejects, DurationsThatDoNotFitAndSchedulesThatStick) {
  const auto rejection = [](const Schedule& schedule, const Durations& durations) -> std::string {
    try {
      simulate(schedule, durations);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "was accepted";
  };
  const Schedule good = generate("1F1B", {.ranks = 3, .microbatches = 1});
  EXPECT_EQ(rejection(good, {.stages = std::vector<StageTimes>(2)}),
            "durations are needed for 1 stage (they hold for all) or 3 stages, got 2");
  EXPECT_EQ(rejection(good, {.stages = {{.forward = Seconds(-1)}}}),
            "the time of a forward must be finite and at least 0 seconds, got -1");
  EXPECT_EQ(rejection(good, {.communication = Seconds(std::numeric_limits<double>::quiet_NaN())}),
            "the time of a message must be finite and at least 0 seconds, got nan");
  Schedule stuck = good;
  stuck.ranks[1] = parse_actions("B0 F0");
  EXPECT_EQ(rejection(stuck, {}),
            "schedule 1F1B, rank 1, position 0 (B0): a backward needs its forward before it");
}

TEST(Simulate, AFusedBackwardMayTakeATimeOfItsOwn) {
  const Schedule schedule = generate("1F1B", {.ranks = 1, .microbatches = 3});
  const StageTimes apart = {Seconds(1), Seconds(2), Seconds(4)};
  StageTimes fused = apart;
  fused.fused_backward = Seconds(5);
  EXPECT_EQ(simulate(schedule, {.stages = {apart}}).step_time, Seconds(3 * 7));
  EXPECT_EQ(simulate(schedule, {.stages = {fused}}).step_time, Seconds(3 * 6));
}

}  // namespace
}  // namespace braid::schedule
