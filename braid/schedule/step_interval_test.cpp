#include "braid/schedule/step_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "braid/schedule/clock.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/published_numbers.h"

namespace braid::schedule {
namespace {

double interval(const Schedule& compute, StepEnd step_end, const Durations& durations) {
  return step_interval(lower(compute, {.step_end = std::move(step_end)}), durations).count();
}

double clipped(const Schedule& compute, const Durations& durations = {}) {
  return interval(compute, {.norm_use = NormUse::kScalesUpdate}, durations);
}

double unclipped(const Schedule& compute, const Durations& durations = {}) {
  return interval(compute, {.norm_use = NormUse::kReportedOnly}, durations);
}

// The mean time of a step over so many in a row, by running them.
double mean_of(const Schedule& schedule, const Durations& durations, int steps) {
  std::vector<Seconds> starts(schedule.ranks.size());
  for (int i = 0; i < steps; ++i) starts = run_clock(schedule, durations, starts, [](auto...) {});
  return std::max_element(starts.begin(), starts.end())->count() / steps;
}

TEST(StepInterval, ZbH2LosesItsGainWhereAllRanksWaitForTheNorm) {
  const Schedule schedule = generate("ZBH2", {.ranks = 4, .microbatches = 8});
  ASSERT_EQ(simulate(schedule, {}).longest_span, Seconds(24)) << "nothing but work";
  EXPECT_EQ(unclipped(schedule), 24.0);
  EXPECT_EQ(clipped(schedule), 24.0 + 3.0) << "rank 3 starts 3 forwards after rank 0, and all wait for it";
}

// The first rank's update waits for the last rank's gradient: for all its W, or only for its forwards.
TEST(StepInterval, ATiedHeadKeepsZbH2sGainIfItsGradientIsMadeInForward) {
  const Schedule schedule = generate("ZBH2", {.ranks = 4, .microbatches = 8});
  const auto of = [&](bool in_forward) {
    return interval(schedule, {.tied = {{0, 3, in_forward}}, .norm_use = NormUse::kReportedOnly}, {});
  };
  EXPECT_EQ(of(true), 24.0);
  EXPECT_EQ(of(false), 27.0);
}

TEST(StepInterval, OfPublishedSettings) {
  int settings_with_gain = 0;
  for (const PublishedSetting& setting : kPublishedSettings) {
    SCOPED_TRACE(testing::Message() << setting.model << " m " << setting.microbatches);
    const Durations durations = durations_of(setting);
    const Schedule schedule =
        generate("ZBH2", {.ranks = setting.ranks, .microbatches = setting.microbatches});
    const Simulation simulation = simulate(schedule, durations);
    EXPECT_NEAR(unclipped(schedule, durations), simulation.longest_span.count(), 1e-9);
    EXPECT_NEAR(clipped(schedule, durations), simulation.step_time.count(), 1e-9);
    settings_with_gain += simulation.longest_span < 0.99 * simulation.step_time ? 1 : 0;
  }
  EXPECT_EQ(settings_with_gain, 9) << "all but the 1.5B model's, whose W is too short";
}

TEST(StepInterval, WithoutClippingIsNeverLongerAndBoundedByWorkAndStep) {
  const Durations uneven = {.stages = {{.forward = Seconds(1.0),
                                        .backward_input = Seconds(1.1),
                                        .backward_weight = Seconds(0.7),
                                        .update = Seconds(2.5)}},
                            .communication = Seconds(0.2),
                            .tied_exchange = Seconds(1.5),
                            .norm_exchange = Seconds(0.4)};
  for (const Mode& mode : modes()) {
    for (const int32_t ranks : {1, 2, 4, 5}) {
      for (const Durations& durations : {Durations{}, uneven}) {
        const PipelineShape shape = {
            .ranks = ranks, .chunks_per_rank = mode.chunks.value_or(2), .microbatches = 4 * ranks};
        SCOPED_TRACE(testing::Message() << mode.name << " p " << ranks);
        const Schedule schedule = generate(mode.name, shape);
        const std::vector<TiedStages> tied = {{0, shape.stages() - 1}};
        const double with = interval(schedule, {.tied = tied}, durations);
        const double without =
            interval(schedule, {.tied = tied, .norm_use = NormUse::kReportedOnly}, durations);
        EXPECT_LE(without, with * (1 + 1e-12));
        const StageTimes& times = durations.of(0);
        const double work =
            shape.chunks_per_rank *
            (shape.microbatches * (times.forward + times.backward_input + times.backward_weight).count() +
             times.update.count());
        EXPECT_GE(without, work * (1 - 1e-12));
        EXPECT_LE(clipped(schedule, {.stages = durations.stages, .communication = durations.communication}),
                  with);
      }
    }
  }
}

// In the long run ranks start x apart, where x + interval = A(x). Every rank's step ends after all starts, as
// the last stage needs the first one's forwards and the other way round, so no two elements of x differ by
// more than the interval. Hence n steps from equal starts take n to n + 1 intervals.
TEST(StepInterval, IsWhatALongRunComesTo) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.5, 1.5);
  constexpr int kSteps = 2000;
  for (const char* mode : {"1F1B", "VPP", "ZBH1", "ZBH2", "ZBVPP"}) {
    const PipelineShape shape = {
        .ranks = 4, .chunks_per_rank = mode_of(mode).chunks.value_or(2), .microbatches = 8};
    const Schedule schedule =
        lower(generate(mode, shape), {.step_end = {.norm_use = NormUse::kReportedOnly}});
    for (int draw = 0; draw < 5; ++draw) {
      Durations durations = {.stages = {}, .communication = Seconds(time(random))};
      for (int32_t stage = 0; stage < shape.stages(); ++stage) {
        durations.stages.push_back({.forward = Seconds(time(random)),
                                    .backward_input = Seconds(time(random)),
                                    .backward_weight = Seconds(time(random)),
                                    .update = Seconds(time(random))});
      }
      const double found = step_interval(schedule, durations).count();
      const double mean = mean_of(schedule, durations, kSteps);
      EXPECT_GE(mean, found * (1 - 1e-9)) << mode;
      EXPECT_LE(mean, found * (1 + 1e-9) * (1 + 1.0 / kSteps)) << mode;
    }
  }
}

TEST(StepInterval, UpdatesAndExchangesCount) {
  const Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 2});
  const double bare = clipped(schedule);
  const Durations durations = {.stages = {{.update = Seconds(5)}}, .norm_exchange = Seconds(7)};
  EXPECT_EQ(clipped(schedule, durations), bare + 5 + 7);
  EXPECT_EQ(unclipped(schedule, durations), bare + 5) << "the norm is on its way during the next step";
  // Rank 0, which ends last, starts its half of the exchange then.
  EXPECT_EQ(interval(schedule, {.tied = {{0, 1}}}, {.tied_exchange = Seconds(3)}), bare + 3);
}

TEST(StepInterval, NothingThatTakesTimeTakesNone) {
  EXPECT_EQ(clipped(generate("1F1B", {.ranks = 3, .microbatches = 2}),
                    {.stages = {{Seconds(0), Seconds(0), Seconds(0)}}}),
            0.0);
}

}  // namespace
}  // namespace braid::schedule
