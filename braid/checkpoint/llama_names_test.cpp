#include "braid/checkpoint/llama_names.h"

#include <gtest/gtest.h>

#include <sstream>

#include "braid/base/error.h"

namespace braid::checkpoint {
namespace {

TEST(LlamaNames, GoldenListOfAModelWithGroupedQueryAttention) {
  const LlamaSizes sizes{.vocab = 100,
                         .hidden = 8,
                         .intermediate = 20,
                         .layers = 1,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 3,
                         .tied = false};
  std::ostringstream text;
  for (const NamedShape& tensor : llama_tensors(sizes)) {
    text << tensor.name;
    for (const int64_t size : tensor.shape) text << ' ' << size;
    text << '\n';
  }
  EXPECT_EQ(text.str(), R"(model.embed_tokens.weight 100 8
model.layers.0.input_layernorm.weight 8
model.layers.0.self_attn.q_proj.weight 12 8
model.layers.0.self_attn.k_proj.weight 6 8
model.layers.0.self_attn.v_proj.weight 6 8
model.layers.0.self_attn.o_proj.weight 8 12
model.layers.0.post_attention_layernorm.weight 8
model.layers.0.mlp.gate_proj.weight 20 8
model.layers.0.mlp.up_proj.weight 20 8
model.layers.0.mlp.down_proj.weight 8 20
model.norm.weight 8
lm_head.weight 100 8
)");
}

TEST(LlamaNames, ATiedModelHasNoHead) {
  LlamaSizes sizes{.vocab = 100,
                   .hidden = 8,
                   .intermediate = 20,
                   .layers = 12,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_dim = 2,
                   .tied = true};
  const auto tied = llama_tensors(sizes);
  EXPECT_EQ(tied.back().name, kFinalNormName);
  EXPECT_EQ(tied[tied.size() - 2].name, "model.layers.11.mlp.down_proj.weight");
  sizes.tied = false;
  EXPECT_EQ(llama_tensors(sizes).size(), tied.size() + 1);
}

TEST(LlamaNames, RejectsANegativeLayer) {
  EXPECT_THROW(layer_tensor_name(-1, LayerTensor::kQuery), InternalError);
}

TEST(LlamaNames, RecomputedTensors) {
  EXPECT_TRUE(is_recomputed_tensor("model.layers.3.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_recomputed_tensor("model.norm.weight"));
}

}  // namespace
}  // namespace braid::checkpoint
