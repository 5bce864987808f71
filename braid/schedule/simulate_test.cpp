#include "braid/schedule/simulate.h"

#include <gtest/gtest.h>

#include <limits>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/generate.h"
#include "braid/schedule/lower.h"

namespace braid::schedule {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// Profiled times and the bubble rates that go with them: arXiv:2401.10241, tables 9 and 5.
struct Published {
  const char* model;
  int32_t ranks;
  int32_t microbatches;
  double forward_ms;
  double backward_input_ms;
  double backward_weight_ms;
  double communication_ms;
  const char* bubble_1f1b;
};
constexpr Published kPublished[] = {
    {"1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, "0.2431"},
    {"1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626, "0.1985"},
    {"1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762, "0.1240"},
    {"6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527, "0.2347"},
    {"6.2B", 8, 32, 29.802, 29.428, 19.53, 0.577, "0.1898"},
    {"6.2B", 8, 64, 29.935, 29.621, 19.388, 0.535, "0.1091"},
    {"14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, "0.2552"},
    {"14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379, "0.2082"},
    {"14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378, "0.1251"},
    {"28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408, "0.2646"},
    {"28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, "0.2168"},
    {"28.3B", 32, 256, 10.402, 10.248, 7.698, 0.46, "0.1352"},
};

TEST(Simulate, PublishedBubbleRatesOfOneFOneB) {
  for (const Published& row : kPublished) {
    SCOPED_TRACE(testing::Message() << row.model << " m " << row.microbatches);
    const Durations durations = {.stages = {{.forward = Milliseconds(row.forward_ms),
                                             .backward_input = Milliseconds(row.backward_input_ms),
                                             .backward_weight = Milliseconds(row.backward_weight_ms)}},
                                 .communication = Milliseconds(row.communication_ms)};
    const Schedule schedule = generate("1F1B", {.ranks = row.ranks, .microbatches = row.microbatches});
    EXPECT_EQ(fixed(simulate(schedule, durations).bubble_rate, 4), row.bubble_1f1b);
    EXPECT_EQ(fixed(simulate(lower(schedule, {}), durations).bubble_rate, 4), row.bubble_1f1b)
        << "with messages";
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

TEST(SimulateRefuses, DurationsThatDoNotFitAndSchedulesThatStick) {
  const auto refusal = [](const Schedule& schedule, const Durations& durations) -> std::string {
    try {
      simulate(schedule, durations);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "was accepted";
  };
  const Schedule good = generate("1F1B", {.ranks = 3, .microbatches = 1});
  EXPECT_EQ(refusal(good, {.stages = std::vector<StageTimes>(2)}),
            "durations are needed for 1 stage (they hold for all) or 3 stages, got 2");
  EXPECT_EQ(refusal(good, {.stages = {{.forward = Seconds(-1)}}}),
            "the time of a forward must be finite and at least 0 seconds, got -1");
  EXPECT_EQ(refusal(good, {.communication = Seconds(std::numeric_limits<double>::quiet_NaN())}),
            "the time of a message must be finite and at least 0 seconds, got nan");
  Schedule stuck = good;
  stuck.ranks[1] = parse_actions("B0 F0");
  EXPECT_EQ(refusal(stuck, {}),
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
