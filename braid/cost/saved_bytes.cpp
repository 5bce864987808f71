#include "braid/cost/saved_bytes.h"

namespace braid::cost {
namespace {

int64_t rows(const MicrobatchShape& shape) { return shape.sequences * shape.sequence_tokens; }

}  // namespace

SavedBytes embedding_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape) {
  constexpr int64_t kTokenBytes = 8;
  const int64_t tokens = rows(shape) * kTokenBytes;
  return {.forward_to_backward = tokens,
          .backward_to_weight = tokens + rows(shape) * model.hidden_size * shape.element_bytes};
}

SavedBytes attention_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape) {
  const int64_t hidden = model.hidden_size;
  const int64_t mixed = model.num_attention_heads * model.head_dim;
  const int64_t qkv = mixed + 2 * model.num_key_value_heads * model.head_dim;
  // x, its norm, qkv and the heads' output; 1 / rms of each row and the softmax's log-sum-exp of each row and
  // head.
  const int64_t forward_to_backward =
      rows(shape) * (2 * hidden + qkv + mixed) * shape.element_bytes +
      rows(shape) * (1 + model.num_attention_heads) * shape.wide_element_bytes;
  // The two products' inputs (the norm, the heads' output) and output gradients, and the norm's weight
  // gradient.
  const int64_t backward_to_weight =
      rows(shape) * (2 * hidden + qkv + mixed) * shape.element_bytes + hidden * shape.wide_element_bytes;
  return {.forward_to_backward = forward_to_backward, .backward_to_weight = backward_to_weight};
}

SavedBytes mlp_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape) {
  const int64_t hidden = model.hidden_size;
  const int64_t intermediate = model.intermediate_size;
  // x, its norm, gate and up; 1 / rms of each row.
  const int64_t forward_to_backward = rows(shape) * (2 * hidden + 2 * intermediate) * shape.element_bytes +
                                      rows(shape) * shape.wide_element_bytes;
  // The norm, the activation, dy and the gradient of gate and up; the norm's weight gradient.
  const int64_t backward_to_weight =
      rows(shape) * (2 * hidden + 3 * intermediate) * shape.element_bytes + hidden * shape.wide_element_bytes;
  return {.forward_to_backward = forward_to_backward, .backward_to_weight = backward_to_weight};
}

SavedBytes head_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape) {
  // x and the gradient of its norm; 1 / rms of each row. After B only the norm's weight gradient.
  return {.forward_to_backward = rows(shape) * 2 * model.hidden_size * shape.element_bytes +
                                 rows(shape) * shape.wide_element_bytes,
          .backward_to_weight = model.hidden_size * shape.wide_element_bytes};
}

}  // namespace braid::cost
