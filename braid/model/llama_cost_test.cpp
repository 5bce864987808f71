#include "braid/cost/model_cost.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/config/presets.h"

namespace braid::cost {
namespace {

using config::ModelConfig;

ModelConfig preset(const char* name) { return config::find_preset(name).value(); }

TEST(ModelCost, ParametersAreThoseThatTheModelsAreKnownFor) {
  EXPECT_EQ(model_parameters(preset("llama-7b")), 6738415616);
  EXPECT_EQ(model_parameters(preset("llama-13b")), 13015864320);
  EXPECT_EQ(model_parameters(preset("llama-2-7b")), 6738415616);
  EXPECT_EQ(model_parameters(preset("llama-3-8b")), 8030261248);
  EXPECT_EQ(model_parameters(preset("llama-3-70b")), 70553706496);
  EXPECT_EQ(model_parameters(preset("llama-3.2-1b")), 1235814400) << "tied: the matrix counts once";
  EXPECT_EQ(model_parameters(preset("tinyllama")), 1100048384);
}

TEST(ModelCost, SmallPresetsHaveTheSizeTheyAreNamedFor) {
  const auto millions = [](const char* name) {
    return static_cast<double>(model_parameters(preset(name))) / 1e6;
  };
  EXPECT_NEAR(millions("llama-tiny"), 1.05, 0.1);
  EXPECT_NEAR(millions("llama-10m"), 10, 1);
  EXPECT_NEAR(millions("llama-50m"), 50, 2);
  EXPECT_NEAR(millions("llama-100m"), 100, 2);
}

TEST(ModelCost, PartsAddUp) {
  const ModelConfig model{.vocab_size = 10,
                          .hidden_size = 4,
                          .intermediate_size = 6,
                          .num_hidden_layers = 3,
                          .num_attention_heads = 3,
                          .num_key_value_heads = 1,
                          .head_dim = 2};
  EXPECT_EQ(embedding_parameters(model), 40);
  EXPECT_EQ(attention_parameters(model), 4 * 6 + 4 * 2 + 4 * 2 + 6 * 4 + 4);
  EXPECT_EQ(mlp_parameters(model), 3 * 4 * 6 + 4);
  EXPECT_EQ(block_parameters(model), attention_parameters(model) + mlp_parameters(model));
  EXPECT_EQ(head_parameters(model), 44);
  EXPECT_EQ(model_parameters(model), 40 + 3 * (68 + 76) + 44);
  ModelConfig tied = model;
  tied.tie_word_embeddings = true;
  EXPECT_EQ(model_parameters(tied), model_parameters(model) - 40);
}

TEST(ModelCost, TrainingTakesSixOperationsAParameterAndTheAttention) {
  const ModelConfig model = preset("llama-3-8b");
  const int64_t s = 2048;
  const int64_t norms = (2 * 32 + 1) * int64_t{4096};
  const int64_t multiplied = model_parameters(model) - embedding_parameters(model) - norms;
  EXPECT_EQ(training_flops_per_token(model, s),
            6.0 * static_cast<double>(multiplied) + 6.0 * 32 * 4096 * (s + 1));
  EXPECT_EQ(training_flops_per_token(model, s), 3 * forward_flops_per_token(model, s));
}

TEST(ModelCost, CausalScoresCountEveryPairOnce) {
  const ModelConfig model{.hidden_size = 8, .num_attention_heads = 2};
  const int64_t s = 7;
  double pairs = 0;
  for (int64_t query = 0; query < s; ++query) pairs += static_cast<double>(query + 1);
  // Two products of 2 d operations a pair and head.
  EXPECT_EQ(forward_flops(model, s).attention_scores * s, pairs * 2 * 2 * 4 * 2);
  EXPECT_THROW(forward_flops(model, 0), ConfigError);
}

TEST(ModelCost, UnitsAreEmbeddingBlocksAndHead) {
  const ModelConfig model = preset("llama-10m");
  const auto layers = layer_costs(model, 512);
  ASSERT_EQ(layers.size(), static_cast<size_t>(model.num_hidden_layers) + 2);
  EXPECT_EQ(layers.front().kind, LayerKind::kEmbedding);
  EXPECT_EQ(layers.back().kind, LayerKind::kHead);
  double flops = 0;
  int64_t parameters = 0;
  for (const LayerCost& layer : layers) {
    flops += layer.training_flops_per_token;
    parameters += layer.parameters;
  }
  EXPECT_DOUBLE_EQ(flops, training_flops_per_token(model, 512));
  EXPECT_EQ(parameters, model_parameters(model));
}

TEST(ModelCost, TheEmbeddingIsCheapButNotFreeAndTheOptimizerCounts) {
  const ModelConfig model = preset("llama-10m");
  const auto costs = unit_costs(model, 512);
  EXPECT_GT(costs.front(), 0);
  EXPECT_LT(costs.front(), 0.1 * costs[1]);
  const auto few_tokens = unit_costs(model, 512, {.tokens_per_step = 512});
  for (size_t i = 0; i < costs.size(); ++i) EXPECT_GT(few_tokens[i], costs[i]);
  const auto no_memory = unit_costs(model, 512, {.flops_per_byte = 0});
  EXPECT_EQ(no_memory.front(), 0);
  EXPECT_EQ(no_memory.back(), 3 * forward_flops(model, 512).head);
  EXPECT_THROW(unit_costs(model, 512, {.tokens_per_step = 0}), ConfigError);
}

}  // namespace
}  // namespace braid::cost
