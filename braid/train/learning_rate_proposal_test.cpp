#include "braid/train/learning_rate_proposal.h"

#include <gtest/gtest.h>

#include <cmath>

#include "braid/base/error.h"
#include "braid/model/llama.h"

namespace braid::train {
namespace {

// The rates that DeepSeek LLM's models were trained with (arXiv:2401.02954, table 2) on 2e12 tokens.
TEST(LearningRateProposal, PublishedRates) {
  EXPECT_DOUBLE_EQ(proposed_learning_rate(6 * 7e9 * 2e12), 4.2e-4);
  EXPECT_DOUBLE_EQ(proposed_learning_rate(6 * 67e9 * 2e12), 3.2e-4);
}

TEST(LearningRateProposal, FallsWithCompute) {
  double before = 1;
  for (double flops = 1e6; flops < 1e26; flops *= 10) {
    const double rate = proposed_learning_rate(flops);
    EXPECT_LT(rate, before);
    EXPECT_NEAR(rate / (0.3118 / std::pow(flops, 0.125)), 1, 0.051) << "two digits";
    before = rate;
  }
  EXPECT_THROW(proposed_learning_rate(0), InternalError);
}

// Two decoder layers of 32 (32 + 2 * 16) + 32 * 32 + 3 * 32 * 48 weights, 6 operations for each and a token,
// and attention over 16 tokens: 3 * 4 * 32 * (16 + 1) / 2. The head (64 * 32 weights) is not counted.
TEST(LearningRateProposal, CountsTheModelWithoutEmbeddingAndHead) {
  const RunPlan plan =
      make_run_plan({.mesh = {.pp = 2, .dp = 3}},
                    {.microbatch_sequences = 2, .sequence_tokens = 16, .microbatches = 4, .max_steps = 100},
                    model::llama_spec({.vocab_size = 64,
                                       .hidden_size = 32,
                                       .intermediate_size = 48,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 2,
                                       .num_key_value_heads = 1,
                                       .max_position_embeddings = 16}));
  const double layer = 6.0 * (32 * 64 + 32 * 32 + 3 * 32 * 48) + 3 * 4 * 32 * 8.5;
  EXPECT_EQ(flops_per_token(plan), 2 * layer + 6 * 64 * 32);
  // 100 steps of 24 samples of 16 tokens
  EXPECT_EQ(proposed_learning_rate(38400 * 2 * layer), 0.02);
  EXPECT_EQ(
      learning_rate_proposal(plan),
      "warning: no --learning_rate was given, and 5e-05, the default, suits fine-tuning; for this model "
      "from random weights and 3.84e+04 tokens, try --learning_rate 0.02");
}

}  // namespace
}  // namespace braid::train
