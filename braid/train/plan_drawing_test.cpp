#include "braid/train/plan_drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/model/llama.h"

namespace braid::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunPlan plan_of(const config::Strategy& strategy) {
  const config::ModelConfig model = {.vocab_size = 64,
                                     .hidden_size = 32,
                                     .intermediate_size = 48,
                                     .num_hidden_layers = 4,
                                     .num_attention_heads = 2,
                                     .num_key_value_heads = 2,
                                     .max_position_embeddings = 16};
  return make_run_plan(strategy, {.microbatch_sequences = 2, .sequence_tokens = 16, .microbatches = 4},
                       model::llama_spec(model));
}

TEST(DrawPlan, SaysWhatCrossesNodes) {
  const RunPlan plan = plan_of({.mesh = {.mp = 2, .sharding = 2, .pp = 2}, .sharding_stage = 1});
  // On each of 4 columns the first stage sends 4 activations of 2 x 16 x 32 x 4 bytes, the second as many
  // gradients.
  EXPECT_THAT(draw_plan(plan, 4), HasSubstr(cat("a rank sends in a step: 4 messages, 16.00 KiB; of all ranks "
                                                "together ",
                                                bytes_text(4 * 2 * 4 * 4096), " from node to node")));
  EXPECT_THAT(draw_plan(plan, 8), HasSubstr("of all ranks together 0 B from node to node"));
  EXPECT_THAT(draw_plan(plan, 4),
              HasSubstr("mp 2 x sharding 2 x pp 2 x dp 1: 8 ranks on 2 nodes, 1F1B, 4 microbatches a step"));
  EXPECT_THAT(draw_plan(plan, 3), HasSubstr("8 ranks on 3 nodes"));
}

TEST(DrawPlan, SaysWhatThePlanSaysOfEachAxis) {
  const RunPlan plan = plan_of({.mesh = {.mp = 2, .sharding = 2, .dp = 2}, .sharding_stage = 1});
  const std::string svg = draw_plan(plan, 8);
  for (const auto& [axis, kind, name] :
       {std::tuple(mesh::Axis::kMp, comm::Collective::kAllReduceSum, "all-reduces"),
        {mesh::Axis::kSharding, comm::Collective::kReduceScatterSum, "reduce-scatters"},
        {mesh::Axis::kSharding, comm::Collective::kAllGather, "all-gathers"},
        {mesh::Axis::kDp, comm::Collective::kAllReduceSum, "all-reduces"}}) {
    const comm::Tally& tally = plan.ranks.front().collectives.at(axis).tallies.at(kind);
    EXPECT_THAT(svg,
                HasSubstr(cat(tally.count, " ", name, ", ", bytes_text(static_cast<uint64_t>(tally.bytes)))));
  }
  EXPECT_THAT(svg, HasSubstr("among all ranks, once a step: 1 all-gather of "));
}

TEST(DrawPlan, AxesOfOneRankAreNotDrawn) {
  EXPECT_THAT(draw_plan(plan_of({.mesh = {.pp = 2}}), 8), Not(HasSubstr("sharding: ")));
  EXPECT_THAT(draw_plan(plan_of({}), 8), HasSubstr("one rank: no messages"));
  EXPECT_THROW(draw_plan(plan_of({}), 0), ConfigError);
}

}  // namespace
}  // namespace braid::train
