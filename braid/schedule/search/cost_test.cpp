#include "braid/schedule/search/cost.h"

#include <gtest/gtest.h>

#include "braid/schedule/generators/generate.h"

namespace braid::schedule {
namespace {

TEST(Cost, InPartsOfTheBusiestRank) {
  const Schedule schedule = generate("1F1B", {.ranks = 3, .microbatches = 4});
  Workload workload = {.durations = {.stages = std::vector<StageTimes>(3)},
                       .memory = {{{.forward_to_backward = 5}}}};
  workload.durations.stages[2].forward = Seconds(2.0);  // 4 (2 + 1 + 1) = 16 seconds on the last rank
  const Simulation simulation = simulate(schedule, workload.durations);
  EXPECT_EQ(cost_of(schedule, workload), (Cost{.longest_span = parts_of(simulation.longest_span, Seconds(16)),
                                               .step_time = parts_of(simulation.step_time, Seconds(16)),
                                               .peak_memory = 15}));
  EXPECT_EQ(parts_of(Seconds(24), Seconds(16)), 1'500'000'000);
  EXPECT_EQ(parts_of(Seconds(24), Seconds(0)), 0);
}

TEST(Cost, RoundingOfSumsDoesNotCount) {
  EXPECT_EQ(parts_of(Seconds(0.1 + 0.2), Seconds(0.3)), parts_of(Seconds(0.3), Seconds(0.1 + 0.2)));
}

TEST(Cost, SpanThenStepThenMemory) {
  EXPECT_LT((Cost{1, 9, 9}), (Cost{2, 1, 1}));
  EXPECT_LT((Cost{1, 1, 9}), (Cost{1, 2, 1}));
  EXPECT_LT((Cost{1, 1, 1}), (Cost{1, 1, 2}));
}

TEST(BestSchedule, IsTheFirstOfTheCheapest) {
  BestSchedule best{Workload{}};
  const auto offer = [&](std::string_view mode, const std::string& name) {
    Schedule schedule = generate(mode, {.ranks = 3, .microbatches = 8});
    schedule.name = name;
    best.offer(std::move(schedule));
  };
  offer("FThenB", "keeps more");
  offer("1F1B", "first");
  offer("1F1B", "second");
  EXPECT_EQ(best.take().value_or(Schedule{}).name, "first");
  EXPECT_FALSE(BestSchedule{Workload{}}.take().has_value());
}

}  // namespace
}  // namespace braid::schedule
