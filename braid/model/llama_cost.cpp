#include "braid/model/llama_cost.h"

#include "braid/base/checked.h"
#include "braid/base/error.h"
#include "braid/layers/layer_spec.h"

namespace braid::model {
namespace {

using config::ModelConfig;

/// What one rank of the mp group has of a layer.
struct Sizes {
  int64_t hidden, intermediate, vocabulary, heads, key_value_heads, head_dim;

  int64_t queries() const { return heads * head_dim; }
  int64_t keys() const { return key_value_heads * head_dim; }
};

Sizes sizes_of(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  const layers::Placement place = layers::placement_of(shape);
  return {.hidden = model.hidden_size,
          .intermediate = layers::equal_part(model.intermediate_size, place, "intermediate_size").size(),
          .vocabulary = layers::vocabulary_part(model.vocab_size, place).size(),
          .heads = layers::equal_part(model.num_attention_heads, place, "num_attention_heads").size(),
          .key_value_heads = layers::key_value_part(model.num_key_value_heads, place).part.size(),
          .head_dim = model.head_dim};
}

/// The part of the rows between layers that a rank has.
double own_rows(const cost::MicrobatchShape& shape) {
  return shape.sequence_parallel ? 1.0 / shape.mp_degree : 1.0;
}

double number(int64_t count) { return static_cast<double>(count); }

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

// A gathered row is read and written; the gradient of one of the rank's own tokens is read and added to a
// row.
cost::LayerWork embedding_work(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  const double hidden = number(model.hidden_size);
  return {.forward_flops = 0, .activation_elements = 2 * hidden + 3 * hidden / shape.mp_degree};
}

// A norm and a residual sum, six passes over H each including their gradients; RoPE in place, in both
// directions. Products: q, k, v and o, then q k^T and its product with v.
cost::LayerWork attention_work(const ModelConfig& model, const cost::MicrobatchShape& shape,
                               const layers::Savings& savings) {
  require<ConfigError>(shape.sequence_tokens >= 1, "a sequence must have at least 1 token, got ",
                       shape.sequence_tokens);
  const Sizes n = sizes_of(model, shape);
  const double core = 2 * number(n.queries()) * number(shape.sequence_tokens + 1);
  return {
      .forward_flops = 4 * number(n.hidden) * number(n.queries() + n.keys()) + core,
      .output_flops = 2 * number(n.hidden) * number(n.queries()),
      .recomputed_flops = savings.recomputes_core ? core : 0,
      .early_gradient_flops =
          savings.early_gradients ? 2 * number(n.hidden) * number(n.queries() + 2 * n.keys()) : 0,
      .activation_elements = 12 * number(n.hidden) * own_rows(shape) + 4 * number(n.queries() + n.keys())};
}

// A norm and a residual sum; SwiGLU reads gate and up and writes their product, and backward reads the three
// and writes two.
cost::LayerWork mlp_work(const ModelConfig& model, const cost::MicrobatchShape& shape,
                         const layers::Savings& savings) {
  const Sizes n = sizes_of(model, shape);
  return {.forward_flops = 6 * number(n.hidden) * number(n.intermediate),
          .output_flops = 2 * number(n.hidden) * number(n.intermediate),
          .early_gradient_flops = savings.early_gradients ? 2 * number(n.hidden) * number(n.intermediate) : 0,
          .activation_elements = 12 * number(n.hidden) * own_rows(shape) + 8 * number(n.intermediate)};
}

// Logits: maximum, sum of exponentials, gradient read and written.
cost::LayerWork head_work(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  const Sizes n = sizes_of(model, shape);
  return {.forward_flops = 2 * number(n.hidden) * number(n.vocabulary),
          .activation_elements = 6 * number(n.hidden) * own_rows(shape) + 4 * number(n.vocabulary)};
}

cost::SavedBytes embedding_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  constexpr int64_t kTokenBytes = 8;
  const int64_t tokens = shape.tokens() * kTokenBytes;
  return {.forward_to_backward = tokens,
          .backward_to_weight = tokens + shape.own_tokens() * model.hidden_size * shape.element_bytes};
}

cost::SavedBytes attention_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape,
                                       const layers::Savings& savings) {
  const Sizes n = sizes_of(model, shape);
  const int64_t rows = shape.own_tokens() * n.hidden;
  const int64_t mixed = shape.tokens() * n.queries();
  const int64_t qkv = shape.tokens() * (n.queries() + 2 * n.keys());
  const bool keeps_core = !savings.recomputes_core;
  return {// x, its norm, qkv and the heads' output; 1 / rms of each row and the softmax's log-sum-exp of each
          // row and head.
          .forward_to_backward =
              (2 * rows + qkv + (keeps_core ? mixed : 0)) * shape.element_bytes +
              (shape.own_tokens() + (keeps_core ? shape.tokens() * n.heads : 0)) * shape.wide_element_bytes,
          // o's input and output gradient; the projections'; the norm's weight gradient.
          .backward_to_weight =
              (rows + mixed + (savings.early_gradients ? 0 : rows + qkv)) * shape.element_bytes +
              n.hidden * shape.wide_element_bytes};
}

cost::SavedBytes mlp_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape,
                                 const layers::Savings& savings) {
  const Sizes n = sizes_of(model, shape);
  const int64_t rows = shape.own_tokens() * n.hidden;
  const int64_t features = shape.tokens() * n.intermediate;
  return {// x, its norm, gate and up; 1 / rms of each row.
          .forward_to_backward =
              (2 * rows + 2 * features) * shape.element_bytes + shape.own_tokens() * shape.wide_element_bytes,
          // Gate and up's input and output gradient; down's; the norm's weight gradient.
          .backward_to_weight =
              (rows + 2 * features + (savings.early_gradients ? 0 : rows + features)) * shape.element_bytes +
              n.hidden * shape.wide_element_bytes};
}

cost::SavedBytes head_saved_bytes(const ModelConfig& model, const cost::MicrobatchShape& shape) {
  // x and the gradient of its norm; 1 / rms of each row. After B only the norm's weight gradient.
  return {.forward_to_backward = shape.own_tokens() * 2 * model.hidden_size * shape.element_bytes +
                                 shape.own_tokens() * shape.wide_element_bytes,
          .backward_to_weight = model.hidden_size * shape.wide_element_bytes};
}

}  // namespace braid::model
