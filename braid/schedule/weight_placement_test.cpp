#include "braid/schedule/weight_placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/schedule/check.h"
#include "braid/schedule/cost.h"
#include "braid/schedule/generate.h"
#include "braid/schedule/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

Workload within(int64_t limit) { return {.memory_limit = limit}; }

// All forwards, chunk by chunk, then all backwards.
Schedule chunk_by_chunk(const PipelineShape& shape, Placement placement) {
  Schedule schedule = {.name = "by chunk", .shape = shape, .placement = placement};
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks.emplace_back();
    const auto add_all = [&](Op op, int32_t chunk) {
      for (int32_t i = 0; i < shape.microbatches; ++i) list.push_back({op, chunk, i});
    };
    for (int32_t chunk = 0; chunk < shape.chunks_per_rank; ++chunk) add_all(Op::kForward, chunk);
    for (int32_t chunk = shape.chunks_per_rank; chunk > 0; --chunk) add_all(Op::kBackward, chunk - 1);
  }
  return schedule;
}

// 1F1B's forwards and gradients have the bubble of ZB-H1 once the weights are out of the way.
TEST(PlaceWeights, OneFOneBBecomesZbH1) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (const int32_t microbatches : {ranks, ranks + 3, 24}) {
      SCOPED_TRACE(testing::Message() << "p " << ranks << " m " << microbatches);
      const Schedule compute = generate("1F1B", {.ranks = ranks, .microbatches = microbatches});
      const std::optional<Schedule> placed = place_weights(compute, within(ranks));
      ASSERT_TRUE(placed.has_value());
      ASSERT_NO_THROW(lower(*placed, {}));
      const Cost cost = cost_of(*placed, {});
      ASSERT_LE(cost.peak_memory, ranks);
      ASSERT_LE(simulate(*placed, {}).longest_span.count() - 3.0 * microbatches, ranks - 1.0);
    }
  }
}

TEST(PlaceWeights, AnyChunksAndPlacementWithinTheLeastLimit) {
  const StageTimes times = {
      .forward = Seconds(1.0), .backward_input = Seconds(1.25), .backward_weight = Seconds(0.75)};
  for (int32_t ranks = 1; ranks <= 5; ++ranks) {
    for (int32_t chunks = 1; chunks <= 3; ++chunks) {
      for (const Placement placement : {Placement::kLooped, Placement::kV}) {
        for (const StageMemory kept : {StageMemory{2, 1}, StageMemory{2, 3}, StageMemory{0, 1}}) {
          SCOPED_TRACE(testing::Message() << "p " << ranks << " v " << chunks << " M_W "
                                          << kept.backward_to_weight << " placement " << int(placement));
          const Schedule compute =
              chunk_by_chunk({.ranks = ranks, .chunks_per_rank = chunks, .microbatches = 5}, placement);
          Workload workload = {.durations = {{times}, Seconds(0.5)}, .memory = {.stages = {kept}}};
          const int64_t least = least_limit(compute, workload.memory);
          for (const int64_t limit : {least, least + 3, most_kept(compute, workload.memory)}) {
            if (limit < least) continue;
            workload.memory_limit = limit;
            const std::optional<Schedule> placed = place_weights(compute, workload);
            ASSERT_TRUE(placed.has_value()) << "limit " << limit;
            ASSERT_NO_THROW(lower(*placed, {}));
            const Cost cost = cost_of(*placed, workload);
            ASSERT_LE(cost.peak_memory, limit);
            ASSERT_LE(cost.longest_span, cost_of(compute, workload).longest_span);
          }
        }
      }
    }
  }
}

TEST(PlaceWeights, OrdersThatDoNotFitAreRefused) {
  const Schedule compute = generate("FThenB", {.ranks = 2, .microbatches = 4});
  EXPECT_EQ(least_limit(compute, {}), 4);
  EXPECT_FALSE(place_weights(compute, within(2)).has_value());
  EXPECT_TRUE(place_weights(compute, within(4)).has_value());
}

// The first microbatch's gradient comes last, and only then the weight gradient of the second one.
TEST(PlaceWeights, InputGradientsInAnyOrder) {
  const Schedule compute = {
      .name = "reversed", .shape = {.microbatches = 2}, .ranks = {parse_actions("F0 F1 I1 I0 W0 W1")}};
  const Memory memory = {{{.forward_to_backward = 2, .backward_to_weight = 3}}};
  EXPECT_EQ(least_limit(compute, memory), 5);
  EXPECT_EQ(most_kept(compute, memory), 6);
  const std::optional<Schedule> placed = place_weights(compute, {.memory = memory, .memory_limit = 5});
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(to_string(placed->ranks[0]), "F0 F1 I1 B0 W1");
}

TEST(PlaceWeights, Golden) {
  const Schedule compute = generate("1F1B", {.ranks = 3, .microbatches = 5});
  EXPECT_EQ(to_string(*place_weights(compute, within(3))), "");
}

}  // namespace
}  // namespace braid::schedule
