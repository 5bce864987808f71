#include "braid/schedule/schedule.h"

#include <gtest/gtest.h>

#include <set>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

TEST(Placement, StagesAndPlacesAreOneToOne) {
  for (const Placement placement : {Placement::kLooped, Placement::kV}) {
    for (int32_t ranks = 1; ranks <= 5; ++ranks) {
      for (int32_t chunks = 1; chunks <= 4; ++chunks) {
        const Schedule schedule = {.shape = {.ranks = ranks, .chunks_per_rank = chunks},
                                   .placement = placement};
        for (int32_t stage = 0; stage < schedule.shape.stages(); ++stage) {
          const Place place = place_of(schedule, stage);
          ASSERT_LT(place.rank, ranks);
          ASSERT_LT(place.chunk, chunks);
          ASSERT_EQ(stage_of(schedule, place), stage);
        }
      }
    }
  }
}

TEST(Placement, GoldenRanksOfSixStages) {
  Schedule schedule = {.shape = {.ranks = 3, .chunks_per_rank = 2}};
  const auto ranks = [&] {
    std::vector<int32_t> result;
    for (int32_t stage = 0; stage < 6; ++stage) result.push_back(place_of(schedule, stage).rank);
    return result;
  };
  EXPECT_EQ(ranks(), (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  schedule.placement = Placement::kV;
  EXPECT_EQ(ranks(), (std::vector<int32_t>{0, 1, 2, 2, 1, 0}));
}

// What a stage makes is what its neighbour takes; send, receive and wait name the same message.
TEST(Handover, BothEndsAgreeAndEveryTagIsUsedOnce) {
  for (const Placement placement : {Placement::kLooped, Placement::kV}) {
    const Schedule schedule = {.shape = {.ranks = 3, .chunks_per_rank = 2, .microbatches = 4},
                               .placement = placement};
    std::set<int64_t> tags;
    for (int32_t stage = 0; stage < 6; ++stage) {
      const Place place = place_of(schedule, stage);
      for (int32_t microbatch = 0; microbatch < 4; ++microbatch) {
        for (const Op op : {Op::kForward, Op::kBackward, Op::kBackwardInput}) {
          const auto made = output_of(schedule, place.rank, {op, place.chunk, microbatch});
          const int32_t next = op == Op::kForward ? stage + 1 : stage - 1;
          ASSERT_EQ(made.has_value(), 0 <= next && next < 6);
          if (!made) continue;
          EXPECT_EQ(made->from, place);
          EXPECT_EQ(made->to, place_of(schedule, next));
          EXPECT_EQ(input_of(schedule, made->to.rank, {op, made->to.chunk, microbatch}), made);
          EXPECT_EQ(message_of(schedule, place.rank, send_action(*made)), made);
          EXPECT_EQ(message_of(schedule, place.rank, wait_action(*made)), made);
          EXPECT_EQ(message_of(schedule, made->to.rank, receive_action(*made)), made);
          EXPECT_EQ(made->is_local(), placement == Placement::kV && std::min(stage, next) == 2);
          EXPECT_TRUE(0 <= made->tag && made->tag < handover_count(schedule.shape));
          EXPECT_EQ(tags.insert(made->tag).second, op != Op::kBackwardInput)
              << "I shares the tag of B, nothing else";
        }
        EXPECT_FALSE(output_of(schedule, place.rank, {Op::kBackwardWeight, place.chunk, microbatch}));
        EXPECT_FALSE(input_of(schedule, place.rank, {Op::kBackwardWeight, place.chunk, microbatch}));
      }
    }
    EXPECT_EQ(tags.size(), 2U * 5U * 4U);
  }
}

TEST(Validate, RejectsShapesAndActionsThatDoNotExist) {
  const auto rejection = [](const auto& value) -> std::string {
    try {
      validate(value);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "was accepted";
  };
  EXPECT_EQ(rejection(PipelineShape{.ranks = 0}), "a pipeline needs at least 1 rank, got 0");
  EXPECT_EQ(rejection(PipelineShape{.chunks_per_rank = -1}),
            "a pipeline rank needs at least 1 chunk, got -1");
  EXPECT_EQ(rejection(PipelineShape{.microbatches = 0}), "a step needs at least 1 microbatch, got 0");
  EXPECT_EQ(
      rejection(
          PipelineShape{.ranks = 2000000000, .chunks_per_rank = 2000000000, .microbatches = 2000000000}),
      "a schedule of 2000000000 ranks x 2000000000 chunks x 2000000000 microbatches is too large: their "
      "product "
      "may be at most 268435456");
  const Schedule good = {.name = "mine",
                         .shape = {.ranks = 2, .microbatches = 1},
                         .ranks = {parse_actions("F0 B0"), parse_actions("F0 B0")}};
  EXPECT_EQ(rejection(good), "was accepted");
  Schedule bad = good;
  bad.ranks.pop_back();
  EXPECT_EQ(rejection(bad), "schedule mine has 1 rows for 2 ranks");
  bad = good;
  bad.ranks[1] = parse_actions("F0 B1");
  EXPECT_EQ(rejection(bad),
            "schedule mine, rank 1, position 1 (B1): there is no such action with 1 chunks per rank and 1 "
            "microbatches");
  bad.ranks[1] = parse_actions("F0c1");
  EXPECT_EQ(rejection(bad),
            "schedule mine, rank 1, position 0 (F0c1): there is no such action with 1 chunks per rank and 1 "
            "microbatches");
  bad.ranks[1] = {{.op = static_cast<Op>(99)}};
  EXPECT_EQ(rejection(bad).substr(0, 51), "schedule mine, rank 1, position 0 (UNKNOWN_OP0): th");
}

}  // namespace
}  // namespace braid::schedule
