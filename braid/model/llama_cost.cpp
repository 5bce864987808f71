#include "braid/model/llama_cost.h"

#include "braid/base/checked.h"
#include "braid/base/error.h"

namespace braid::model {
namespace {

using config::ModelConfig;

struct Sizes {
  double hidden, intermediate, vocabulary, queries, keys;
};

Sizes sizes_of(const ModelConfig& model) {
  const auto head_dim = static_cast<double>(model.head_dim);
  return {.hidden = static_cast<double>(model.hidden_size),
          .intermediate = static_cast<double>(model.intermediate_size),
          .vocabulary = static_cast<double>(model.vocab_size),
          .queries = static_cast<double>(model.num_attention_heads) * head_dim,
          .keys = static_cast<double>(model.num_key_value_heads) * head_dim};
}

}  // namespace

int64_t llama_parameters(const ModelConfig& model) {
  const int64_t hidden = model.hidden_size;
  const int64_t embedding = checked_multiply(model.vocab_size, hidden);
  const int64_t heads = 2 * (model.num_attention_heads + model.num_key_value_heads);
  const int64_t attention = checked_multiply(checked_multiply(heads, model.head_dim), hidden) + hidden;
  const int64_t mlp = checked_multiply(3 * model.intermediate_size, hidden) + hidden;
  return embedding + checked_multiply(model.num_hidden_layers, attention + mlp) + hidden +
         (model.tie_word_embeddings ? 0 : embedding);
}

// A gathered row is read and written; its gradient is read and added to a row.
cost::LayerWork embedding_work(const ModelConfig& model) {
  return {.forward_flops = 0, .activation_elements = 5 * sizes_of(model).hidden};
}

// A norm and a residual sum, six passes over H each including their gradients; RoPE in place, in both
// directions. Products: q, k, v and o, then q k^T and its product with v.
cost::LayerWork attention_work(const ModelConfig& model, int64_t sequence_tokens) {
  require<ConfigError>(sequence_tokens >= 1, "a sequence must have at least 1 token, got ", sequence_tokens);
  const Sizes n = sizes_of(model);
  return {.forward_flops = 4 * n.hidden * (n.queries + n.keys) +
                           2 * n.queries * (static_cast<double>(sequence_tokens) + 1),
          .activation_elements = 12 * n.hidden + 4 * (n.queries + n.keys)};
}

// A norm and a residual sum; SwiGLU reads gate and up and writes their product, and backward reads the three
// and writes two.
cost::LayerWork mlp_work(const ModelConfig& model) {
  const Sizes n = sizes_of(model);
  return {.forward_flops = 6 * n.hidden * n.intermediate,
          .activation_elements = 12 * n.hidden + 8 * n.intermediate};
}

// Logits: maximum, sum of exponentials, gradient read and written.
cost::LayerWork head_work(const ModelConfig& model) {
  const Sizes n = sizes_of(model);
  return {.forward_flops = 2 * n.hidden * n.vocabulary,
          .activation_elements = 6 * n.hidden + 4 * n.vocabulary};
}

cost::SavedBytes embedding_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  constexpr int64_t kTokenBytes = 8;
  const int64_t tokens = shape.tokens() * kTokenBytes;
  return {.forward_to_backward = tokens,
          .backward_to_weight = tokens + shape.tokens() * model.hidden_size * shape.element_bytes};
}

cost::SavedBytes attention_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  const int64_t hidden = model.hidden_size;
  const int64_t mixed = model.num_attention_heads * model.head_dim;
  const int64_t qkv = mixed + 2 * model.num_key_value_heads * model.head_dim;
  // x, its norm, qkv and the heads' output; 1 / rms of each row and the softmax's log-sum-exp of each row and
  // head.
  const int64_t forward_to_backward =
      shape.tokens() * (2 * hidden + qkv + mixed) * shape.element_bytes +
      shape.tokens() * (1 + model.num_attention_heads) * shape.wide_element_bytes;
  // The two products' inputs (the norm, the heads' output) and output gradients, and the norm's weight
  // gradient.
  const int64_t backward_to_weight =
      shape.tokens() * (2 * hidden + qkv + mixed) * shape.element_bytes + hidden * shape.wide_element_bytes;
  return {.forward_to_backward = forward_to_backward, .backward_to_weight = backward_to_weight};
}

cost::SavedBytes mlp_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  const int64_t hidden = model.hidden_size;
  const int64_t intermediate = model.intermediate_size;
  // x, its norm, gate and up; 1 / rms of each row.
  const int64_t forward_to_backward = shape.tokens() * (2 * hidden + 2 * intermediate) * shape.element_bytes +
                                      shape.tokens() * shape.wide_element_bytes;
  // The norm, the activation, dy and the gradient of gate and up; the norm's weight gradient.
  const int64_t backward_to_weight = shape.tokens() * (2 * hidden + 3 * intermediate) * shape.element_bytes +
                                     hidden * shape.wide_element_bytes;
  return {.forward_to_backward = forward_to_backward, .backward_to_weight = backward_to_weight};
}

cost::SavedBytes head_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  // x and the gradient of its norm; 1 / rms of each row. After B only the norm's weight gradient.
  return {.forward_to_backward = shape.tokens() * 2 * model.hidden_size * shape.element_bytes +
                                 shape.tokens() * shape.wide_element_bytes,
          .backward_to_weight = model.hidden_size * shape.wide_element_bytes};
}

}  // namespace braid::model
