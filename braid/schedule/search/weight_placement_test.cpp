#include "braid/schedule/search/weight_placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/schedule/check.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/search/cost.h"
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

TEST(PlaceWeights, OrdersThatDoNotFitAreRejected) {
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

// All forwards, then the input gradients of the microbatches in `order`, then all weight gradients.
Schedule with_input_gradients(const PipelineShape& shape, const std::vector<int32_t>& order) {
  Schedule schedule = {.name = "any order", .shape = shape, .placement = Placement::kV};
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks.emplace_back();
    for (int32_t chunk = 0; chunk < shape.chunks_per_rank; ++chunk) {
      for (int32_t i = 0; i < shape.microbatches; ++i) list.push_back({Op::kForward, chunk, i});
    }
    for (int32_t chunk = shape.chunks_per_rank; chunk > 0; --chunk) {
      for (const int32_t i : order) list.push_back({Op::kBackwardInput, chunk - 1, i});
    }
    for (int32_t chunk = 0; chunk < shape.chunks_per_rank; ++chunk) {
      for (int32_t i = 0; i < shape.microbatches; ++i) list.push_back({Op::kBackwardWeight, chunk, i});
    }
  }
  return schedule;
}

TEST(PlaceWeights, EveryOrderOfInputGradientsWithinItsLeastLimit) {
  Workload workload = {.memory = {{{.forward_to_backward = 3, .backward_to_weight = 4}}}};
  for (int32_t ranks = 1; ranks <= 3; ++ranks) {
    for (int32_t chunks = 1; chunks <= 2; ++chunks) {
      std::vector<int32_t> order = {0, 1, 2, 3};
      do {
        const Schedule compute =
            with_input_gradients({.ranks = ranks, .chunks_per_rank = chunks, .microbatches = 4}, order);
        check(compute);
        const int64_t least = least_limit(compute, workload.memory);
        workload.memory_limit = least;
        const std::optional<Schedule> placed = place_weights(compute, workload);
        ASSERT_TRUE(placed.has_value()) << to_string(compute);
        ASSERT_NO_THROW(lower(*placed, {})) << to_string(*placed);
        ASSERT_LE(cost_of(*placed, workload).peak_memory, least);
        ASSERT_LE(cost_of(*placed, workload).peak_memory, most_kept(compute, workload.memory));
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(PlaceWeights, Golden) {
  const Schedule compute = generate("1F1B", {.ranks = 3, .microbatches = 5});
  EXPECT_EQ(to_string(*place_weights(compute, within(3))),
            "1F1B\n"
            "rank 0: F0 F1 F2 B0 F3 B1 F4 B2 B3 B4\n"
            "rank 1: F0 F1 I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4\n"
            "rank 2: F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4\n");
}

}  // namespace
}  // namespace braid::schedule
