#include "braid/train/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "braid/model/llama.h"

namespace braid::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Per layer: attention 32 (32 + 2 * 16) + 32 * 32 and a norm of 32, MLP 3 * 32 * 48 and a norm of 32.
const config::ModelConfig kModel = {.vocab_size = 64,
                                    .hidden_size = 32,
                                    .intermediate_size = 48,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 1,
                                    .max_position_embeddings = 16};
const config::TrainingOptions kTraining = {
    .microbatch_sequences = 2, .sequence_tokens = 16, .microbatches = 4};

RunPlan plan_of(config::Strategy strategy, bool tied = false) {
  config::ModelConfig config = kModel;
  config.tie_word_embeddings = tied;
  return make_run_plan(strategy, kTraining, model::llama_spec(config));
}

TEST(PlanText, OfAPipelineOfTwo) {
  const RunPlan plan = plan_of({.mesh = {.pp = 2}, .durations = schedule::parse_durations("1,1,1", 1)});
  EXPECT_THAT(
      plan_text(plan),
      ElementsAre(
          "model: 19616 parameters in 6 layers (1 embedding, 2 attention, 2 mlp, 1 head), float32",
          "ranks: mp 1 x sharding 1 x pp 2 x dp 1",
          "schedule: 1F1B, 4 microbatches of 2 x 16 tokens a step, 8 samples a step",
          "simulated step: 15, from step to step 15, bubble 20.0%; with the given times",
          "rank 0: stage 0 of 2 (model.embed_tokens to model.layers.0.mlp), 9792 parameters",
          "rank 1: stage 1 of 2 (model.layers.1.self_attn to lm_head), 9824 parameters",
          "   memory     weights   gradients  optimizer states  kept activations     buffers         sum",
          "   rank 0   40.00 KiB   40.00 KiB         80.00 KiB         81.50 KiB   13.00 KiB  254.50 KiB",
          "   rank 1   41.00 KiB   41.00 KiB         82.00 KiB         48.62 KiB   13.00 KiB  225.62 KiB",
          "messages a step: rank 0 to rank 1: 4 activations of 4.00 KiB",
          "messages a step: rank 1 to rank 0: 4 gradients of 4.00 KiB",
          "messages a step: among all ranks: 1 all-gather of 143 numbers (1.12 KiB) from each"));
}

TEST(PlanText, SaysWhatATiedWeightCosts) {
  const RunPlan plan = plan_of({.mesh = {.pp = 2}}, true);
  EXPECT_THAT(plan_text(plan),
              Contains("messages a step: rank 0 to rank 1: 1 gradient of the tied weight of 8.00 KiB"));
  EXPECT_THAT(plan_text(plan).front(), StartsWith("model: 17568 parameters in 6 layers")) << "it counts once";
}

TEST(PlanText, SaysWhichTimesItTakes) {
  const auto step_of = [](const RunPlan& plan) { return plan_text(plan)[3]; };
  EXPECT_THAT(step_of(plan_of({})),
              "simulated step: 12.00 forwards, from step to step 12.00 forwards, bubble 0.0%; with times in "
              "proportion to FLOPs (1 forward: of a microbatch through an average rank)");
  const schedule::StageTimes one = {schedule::Seconds(0.5), schedule::Seconds(0.5), schedule::Seconds(0.5)};
  const PartTimes measured = {.kinds = {{"embedding", one}, {"attention", one}, {"mlp", one}, {"head", one}}};
  EXPECT_THAT(step_of(make_run_plan({}, kTraining, model::llama_spec(kModel), measured)),
              "simulated step: 36.0000 s, from step to step 36.0000 s, bubble 0.0%; with measured times")
      << "4 microbatches x 6 layers x 3 halves";
}

TEST(PlanText, SaysWhatIsNotKnown) {
  layers::ModelSpec model = model::llama_spec(kModel);
  for (layers::LayerSpec& layer : model.layers) {
    if (layer.kind == "mlp") layer.saved_bytes = nullptr;
  }
  EXPECT_THAT(
      plan_text(make_run_plan({}, kTraining, model)),
      Contains("not in it: what layers of kind mlp keep for their backward passes, which their spec does "
               "not say"));
}

TEST(PlanJson, HasTheNumbersOfTheText) {
  const RunPlan plan = plan_of({.mesh = {.pp = 2}, .durations = schedule::parse_durations("1,1,1", 1)}, true);
  const auto json = nlohmann::json::parse(plan_json(plan));
  EXPECT_EQ(json["parameters"], 17568);
  EXPECT_EQ(json["mesh"]["pp"], 2);
  EXPECT_EQ(json["step"]["times"], "given");
  EXPECT_EQ(json["step"]["step_time"], 15) << "(m + p - 1) (F + B + W)";
  EXPECT_EQ(json["step"]["bubble_rate"], 0.2);
  EXPECT_EQ(json["all_gather_bytes"], 8 * kStepExchangeNumel);
  ASSERT_EQ(json["ranks"].size(), plan.ranks.size());
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& written = json["ranks"][rank];
    const PlannedMemory& memory = plan.ranks[rank].memory;
    EXPECT_EQ(written["parameters"], plan.ranks[rank].parameters);
    EXPECT_EQ(written["memory_bytes"]["weights"], memory.weights);
    EXPECT_EQ(written["memory_bytes"]["gradients"], memory.gradients);
    EXPECT_EQ(written["memory_bytes"]["optimizer_states"], memory.optimizer_states);
    EXPECT_EQ(written["memory_bytes"]["kept_activations"], memory.kept_activations);
    EXPECT_EQ(written["memory_bytes"]["buffers"], memory.buffers);
    EXPECT_EQ(written["memory_bytes"]["sum"], memory.sum());
    EXPECT_EQ(written["messages"].size(), plan.ranks[rank].messages.tallies.size());
  }
  EXPECT_EQ(json["ranks"][1]["stages"][0]["layers"].back(), "lm_head");
}

}  // namespace
}  // namespace braid::train
