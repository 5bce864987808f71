#include "braid/schedule/search/list_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/search/v_search.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

Schedule schedule_of(const PipelineShape& shape, std::vector<std::vector<Action>> ranks) {
  return {.name = "list", .shape = shape, .placement = Placement::kV, .ranks = std::move(ranks)};
}

std::vector<Action> without_weights(const std::vector<Action>& list) {
  std::vector<Action> result;
  std::copy_if(list.begin(), list.end(), std::back_inserter(result),
               [](const Action& action) { return action.op != Op::kBackwardWeight; });
  return result;
}

// A shape with any times, of which the longest is 4 (so that every one is a whole number of ticks), any
// memory and a limit that may be the least of all.
struct Case {
  PipelineShape shape;
  Workload workload;
  VProblem problem;

  explicit Case(std::mt19937& random) {
    shape = {.ranks = static_cast<int32_t>(1 + random() % 6),
             .chunks_per_rank = 2,
             .microbatches = static_cast<int32_t>(1 + random() % 10)};
    workload = {.durations = {.stages = {}, .communication = Seconds(4)}, .memory = {.stages = {}}};
    for (int32_t stage = 0; stage < shape.stages(); ++stage) {
      const auto time = [&] { return Seconds(static_cast<double>(random() % 5)); };
      const auto bytes = [&] { return static_cast<int64_t>(random() % 5); };
      workload.durations.stages.push_back(
          {.forward = time(), .backward_input = time(), .backward_weight = time()});
      workload.memory.stages.push_back({.forward_to_backward = bytes(), .backward_to_weight = bytes()});
    }
    problem = v_problem(shape, workload, 0);
    for (const VRank& rank : problem.ranks) {
      problem.memory_limit = std::max(problem.memory_limit, least_memory(rank));
    }
    problem.memory_limit += static_cast<int64_t>(random() % 20);
  }

  void expect_sound(const ListOrder& order) const {
    const Schedule schedule = schedule_of(shape, order.ranks);
    ASSERT_NO_THROW(check(schedule));
    constexpr double kTicks = (1 << 20) / 4.0;
    ASSERT_EQ(simulate(schedule, workload.durations).longest_span.count(),
              static_cast<double>(order.longest_span_ticks) / kTicks);
    for (const int64_t peak : peak_memory(schedule, workload.memory)) {
      ASSERT_LE(peak, problem.memory_limit);
    }
  }
};

// The span is the one that simulate finds, and neither a limit nor zero times stop it.
TEST(ListSchedule, IsSoundForAnyTimesAndMemory) {
  std::mt19937 random(20240505);
  for (int i = 0; i < 200; ++i) {
    const Case one(random);
    for (const ListRules& rules :
         preferences(i % 2 == 0 ? tapered_limits(one.problem) : std::vector<std::array<int32_t, 2>>{})) {
      const FillRules fill = {.before_forward = random() % 2 == 0, .before_backward = random() % 2 == 0};
      ASSERT_NO_FATAL_FAILURE(one.expect_sound(list_schedule(one.problem, rules, fill)));
    }
  }
}

TEST(ListSchedule, PrefersTheLowestSlot) {
  const PipelineShape shape = {.ranks = 1, .chunks_per_rank = 2, .microbatches = 2};
  const VProblem problem = v_problem(shape, {}, 4);
  const auto order = [&](std::array<int32_t, kVKinds> slots, int32_t period) {
    return to_string(list_schedule(problem, {.slots = {slots}, .period = period}, {}).ranks[0]);
  };
  EXPECT_EQ(order({0, 1, 2, 3}, 0), "F0 F1 F0c1 F1c1 I0c1 I1c1 I0 I1 W0c1 W1c1 W0 W1");
  EXPECT_EQ(order({3, 2, 1, 0}, 0), "F0 F0c1 I0c1 I0 F1 F1c1 I1c1 I1 W0c1 W0 W1c1 W1");
  // The second microbatch four slots later.
  EXPECT_EQ(order({0, 1, 2, 3}, 4), "F0 F0c1 I0c1 I0 F1 F1c1 I1c1 I1 W0c1 W0 W1c1 W1");
}

TEST(ListSchedule, MemoryAndLimitsHoldForwardsBack) {
  const PipelineShape shape = {.ranks = 1, .chunks_per_rank = 2, .microbatches = 2};
  const std::string one_at_a_time = "F0 F0c1 I0c1 I0 W0c1 F1 W0 F1c1 I1c1 I1 W1c1 W1";
  EXPECT_EQ(to_string(list_schedule(v_problem(shape, {}, 2), {.slots = {{0, 1, 2, 3}}}, {}).ranks[0]),
            one_at_a_time);
  EXPECT_EQ(to_string(list_schedule(v_problem(shape, {}, 4),
                                    {.slots = {{0, 1, 2, 3}}, .most_in_flight = {{1, 2}}}, {})
                          .ranks[0]),
            "F0 F0c1 I0c1 I0 F1 F1c1 I1c1 I1 W0c1 W0 W1c1 W1");
}

TEST(FillWeights, KeepsTheOrderOfForwardsAndInputGradients) {
  std::mt19937 random(20240404);
  for (int i = 0; i < 200; ++i) {
    const Case one(random);
    const std::vector<std::vector<Action>> given =
        list_schedule(one.problem, preferences(tapered_limits(one.problem))[random() % 6], {}).ranks;
    const std::optional<ListOrder> filled = fill_weights(one.problem, given, {});
    ASSERT_TRUE(filled);
    ASSERT_NO_FATAL_FAILURE(one.expect_sound(*filled));
    for (size_t rank = 0; rank < given.size(); ++rank) {
      ASSERT_EQ(without_weights(filled->ranks[rank]), without_weights(given[rank]));
    }
  }
}

TEST(FillWeights, FindsNothingIfTheOrderNeedsMoreMemory) {
  const PipelineShape shape = {.ranks = 1, .chunks_per_rank = 2, .microbatches = 2};
  const std::vector<std::vector<Action>> ranks = {parse_actions("F0 F1 F0c1 F1c1 I0c1 I1c1 I0 I1")};
  EXPECT_FALSE(fill_weights(v_problem(shape, {}, 3), ranks, {}));
  EXPECT_TRUE(fill_weights(v_problem(shape, {}, 4), ranks, {}));
}

// How often a rank waits although it has a W to do.
int32_t waits_with_weights(const Case& one, const ListOrder& order) {
  const Schedule schedule = schedule_of(one.shape, order.ranks);
  const Simulation simulation = simulate(schedule, one.workload.durations);
  int32_t waits = 0;
  for (size_t rank = 0; rank < order.ranks.size(); ++rank) {
    int32_t weights = 0;
    for (size_t i = 0; i < order.ranks[rank].size(); ++i) {
      const bool has_waited = i > 0 && simulation.ranks[rank][i].start > simulation.ranks[rank][i - 1].end;
      waits += has_waited && weights > 0 ? 1 : 0;
      weights += order.ranks[rank][i].op == Op::kBackwardInput    ? 1
                 : order.ranks[rank][i].op == Op::kBackwardWeight ? -1
                                                                  : 0;
    }
  }
  return waits;
}

TEST(FillWeights, WaitsWithoutAWeightGradientOnlyIfTheRulesAllowIt) {
  std::mt19937 random(20240202);
  int32_t waits = 0;
  for (int i = 0; i < 100; ++i) {
    const Case one(random);
    for (const ListRules& rules : preferences({})) {
      const ListOrder eager =
          list_schedule(one.problem, rules, {.before_forward = true, .before_backward = true});
      ASSERT_EQ(waits_with_weights(one, eager), 0);
      waits += waits_with_weights(one, list_schedule(one.problem, rules, {}));
    }
  }
  EXPECT_GT(waits, 0);
}

TEST(LeastMemory, IsWhatOneMicrobatchKeeps) {
  std::mt19937 random(20240303);
  for (int i = 0; i < 200; ++i) {
    Workload workload = {.memory = {.stages = {}}};
    for (int stage = 0; stage < 2; ++stage) {
      workload.memory.stages.push_back({.forward_to_backward = static_cast<int64_t>(random() % 9),
                                        .backward_to_weight = static_cast<int64_t>(random() % 9)});
    }
    const PipelineShape shape = {.ranks = 1, .chunks_per_rank = 2};
    const Schedule alone = schedule_of(shape, {parse_actions("F0 F0c1 I0c1 W0c1 I0 W0")});
    ASSERT_EQ(least_memory(v_problem(shape, workload, 0).ranks[0]), peak_memory(alone, workload.memory)[0]);
  }
}

}  // namespace
}  // namespace braid::schedule
