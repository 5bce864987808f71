#include "braid/cost/model_cost.h"

#include "braid/base/checked.h"
#include "braid/base/error.h"

namespace braid::cost {
namespace {

using config::ModelConfig;

// Bytes of an activation's element as the estimates count it.
constexpr double kElementBytes = 4;
// AdamW reads gradient, master weight and two moments, and writes the last three: seven floats.
constexpr double kOptimizerBytesPerParameter = 28;

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

// Elements that element-wise work reads and writes per token, forward and backward together.
double block_elements(const Sizes& n) {
  // Two norms and two residual sums, six passes over H each with their gradients; RoPE in place, both ways;
  // SwiGLU reads gate and up and writes their product, and backward reads the three and writes two.
  return 24 * n.hidden + 4 * (n.queries + n.keys) + 8 * n.intermediate;
}

}  // namespace

int64_t embedding_parameters(const ModelConfig& model) {
  return checked_multiply(model.vocab_size, model.hidden_size);
}

int64_t attention_parameters(const ModelConfig& model) {
  const int64_t heads = 2 * (model.num_attention_heads + model.num_key_value_heads);
  return checked_multiply(checked_multiply(heads, model.head_dim), model.hidden_size) + model.hidden_size;
}

int64_t mlp_parameters(const ModelConfig& model) {
  return checked_multiply(3 * model.intermediate_size, model.hidden_size) + model.hidden_size;
}

int64_t block_parameters(const ModelConfig& model) {
  return attention_parameters(model) + mlp_parameters(model);
}

int64_t head_parameters(const ModelConfig& model) {
  return model.hidden_size + (model.tie_word_embeddings ? 0 : embedding_parameters(model));
}

int64_t model_parameters(const ModelConfig& model) {
  return embedding_parameters(model) + checked_multiply(model.num_hidden_layers, block_parameters(model)) +
         head_parameters(model);
}

ForwardFlops forward_flops(const ModelConfig& model, int64_t sequence_tokens) {
  require<ConfigError>(sequence_tokens >= 1, "a sequence must have at least 1 token, got ", sequence_tokens);
  const Sizes n = sizes_of(model);
  return {.attention_projections = 4 * n.hidden * (n.queries + n.keys),
          .attention_scores = 2 * n.queries * (static_cast<double>(sequence_tokens) + 1),
          .mlp = 6 * n.hidden * n.intermediate,
          .head = 2 * n.hidden * n.vocabulary};
}

double forward_flops_per_token(const ModelConfig& model, int64_t sequence_tokens) {
  const ForwardFlops flops = forward_flops(model, sequence_tokens);
  return static_cast<double>(model.num_hidden_layers) * flops.block() + flops.head;
}

double training_flops_per_token(const ModelConfig& model, int64_t sequence_tokens) {
  return 3 * forward_flops_per_token(model, sequence_tokens);
}

std::vector<LayerCost> layer_costs(const ModelConfig& model, int64_t sequence_tokens,
                                   const Machine& machine) {
  require<ConfigError>(machine.flops_per_byte >= 0 && machine.tokens_per_step > 0,
                       "flops_per_byte must not be negative and tokens_per_step must be positive, got ",
                       machine.flops_per_byte, " and ", machine.tokens_per_step);
  const ForwardFlops flops = forward_flops(model, sequence_tokens);
  const Sizes n = sizes_of(model);
  const auto unit = [&](LayerKind kind, int64_t parameters, double forward, double elements) {
    return LayerCost{.kind = kind,
                     .parameters = parameters,
                     .training_flops_per_token = 3 * forward,
                     .memory_bytes_per_token = elements * kElementBytes +
                                               kOptimizerBytesPerParameter * static_cast<double>(parameters) /
                                                   machine.tokens_per_step};
  };
  // A gathered row is read and written; its gradient is read, and added into a row.
  std::vector<LayerCost> costs = {unit(LayerKind::kEmbedding, embedding_parameters(model), 0, 5 * n.hidden)};
  costs.insert(costs.end(), static_cast<size_t>(model.num_hidden_layers),
               unit(LayerKind::kBlock, block_parameters(model), flops.block(), block_elements(n)));
  // A head tied to the embedding still updates a matrix where it is alone on its stage, so V H counts in any
  // case. Logits: maximum, sum of exponentials, gradient read and written.
  costs.push_back(unit(LayerKind::kHead, embedding_parameters(model) + model.hidden_size, flops.head,
                       6 * n.hidden + 4 * n.vocabulary));
  return costs;
}

std::vector<double> unit_costs(const ModelConfig& model, int64_t sequence_tokens, const Machine& machine) {
  std::vector<double> costs;
  for (const LayerCost& layer : layer_costs(model, sequence_tokens, machine)) {
    costs.push_back(layer.training_flops_per_token + layer.memory_bytes_per_token * machine.flops_per_byte);
  }
  return costs;
}

}  // namespace braid::cost
