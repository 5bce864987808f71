#include "braid/model/llama_cost.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/config/presets.h"
#include "braid/model/llama.h"

namespace braid::model {
namespace {

using config::ModelConfig;

ModelConfig preset(const char* name) { return config::find_preset(name).value(); }

double flops_of(const std::vector<layers::LayerSpec>& specs, int64_t sequence_tokens) {
  double sum = 0;
  for (const layers::LayerSpec& spec : specs) {
    sum += cost::training_flops(spec.work({.sequences = 1, .sequence_tokens = sequence_tokens}));
  }
  return sum;
}

TEST(LlamaCost, ParametersArePublishedCounts) {
  EXPECT_EQ(llama_parameters(preset("llama-7b")), 6738415616);
  EXPECT_EQ(llama_parameters(preset("llama-13b")), 13015864320);
  EXPECT_EQ(llama_parameters(preset("llama-2-7b")), 6738415616);
  EXPECT_EQ(llama_parameters(preset("llama-3-8b")), 8030261248);
  EXPECT_EQ(llama_parameters(preset("llama-3-70b")), 70553706496);
  EXPECT_EQ(llama_parameters(preset("llama-3.2-1b")), 1235814400) << "tied: the matrix counts once";
  EXPECT_EQ(llama_parameters(preset("tinyllama")), 1100048384);
}

TEST(LlamaCost, SmallPresetsHaveTheSizesInTheirNames) {
  const auto millions = [](const char* name) {
    return static_cast<double>(llama_parameters(preset(name))) / 1e6;
  };
  EXPECT_NEAR(millions("llama-tiny"), 1.05, 0.1);
  EXPECT_NEAR(millions("llama-10m"), 10, 1);
  EXPECT_NEAR(millions("llama-50m"), 50, 2);
  EXPECT_NEAR(millions("llama-100m"), 100, 2);
}

TEST(LlamaCost, TheLayersDeclareAsManyParametersAsTheFormula) {
  for (const char* name : {"llama-tiny", "llama-3-8b", "llama-3.2-1b"}) {
    const ModelConfig config = preset(name);
    int64_t sum = 0;
    const layers::ModelSpec model = llama_spec(config);
    for (const layers::LayerSpec& spec : model.layers) {
      const std::unique_ptr<layers::Layer> layer = layers::make_without_data(spec);
      for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) sum += parameter->numel();
    }
    const int64_t tied = config.tie_word_embeddings ? config.vocab_size * config.hidden_size : 0;
    EXPECT_EQ(sum - tied, llama_parameters(config)) << name;
  }
}

TEST(LlamaCost, TrainingTakesSixOperationsPerParameterPlusAttention) {
  const ModelConfig model = preset("llama-3-8b");
  const int64_t s = 2048;
  const int64_t norms = (2 * 32 + 1) * int64_t{4096};
  const int64_t multiplied = llama_parameters(model) - model.vocab_size * model.hidden_size - norms;
  EXPECT_EQ(flops_of(llama_spec(model).layers, s),
            6.0 * static_cast<double>(multiplied) + 6.0 * 32 * 4096 * (s + 1));
}

TEST(LlamaCost, CausalScoresCountEveryPairOnce) {
  const ModelConfig model{.hidden_size = 8, .num_attention_heads = 2};
  const int64_t s = 7;
  double pairs = 0;
  for (int64_t query = 0; query < s; ++query) pairs += static_cast<double>(query + 1);
  // Two products of 2 d operations per pair and head; subtracting the work of one key per token leaves the
  // projections.
  const double a_key = attention_work(model, {.sequence_tokens = 2}).forward_flops -
                       attention_work(model, {.sequence_tokens = 1}).forward_flops;
  const double projections = attention_work(model, {.sequence_tokens = 1}).forward_flops - 2 * a_key;
  EXPECT_EQ((attention_work(model, {.sequence_tokens = s}).forward_flops - projections) * s,
            pairs * 2 * 2 * 4 * 2);
  EXPECT_THROW(attention_work(model, {.sequence_tokens = 0}), ConfigError);
}

TEST(LlamaCost, TheEmbeddingIsCheapButNotFreeAndTheOptimizerCounts) {
  const ModelConfig model = preset("llama-10m");
  const int64_t parameters = model.vocab_size * model.hidden_size;
  const double embedding = cost::training_cost(embedding_work(model), parameters);
  EXPECT_GT(embedding, 0);
  EXPECT_LT(embedding, 0.1 * cost::training_cost(mlp_work(model), 0));
  EXPECT_GT(cost::training_cost(embedding_work(model), parameters, {.tokens_per_step = 512}), embedding);
  EXPECT_EQ(cost::training_cost(embedding_work(model), parameters, {.flops_per_byte = 0}), 0);
  EXPECT_EQ(cost::training_cost(head_work(model), parameters, {.flops_per_byte = 0}),
            6.0 * static_cast<double>(parameters));
  EXPECT_THROW(cost::training_cost(embedding_work(model), 1, {.tokens_per_step = 0}), ConfigError);
}

}  // namespace
}  // namespace braid::model
