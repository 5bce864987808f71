// Parameters and arithmetic of a Llama, as formulas.
//
// H hidden size, I intermediate size, V vocabulary, n and k query and key-value heads, d head size, s tokens
// of a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "braid/config/model_config.h"

namespace braid::cost {

/// V H.
int64_t embedding_parameters(const config::ModelConfig& model);
/// 2 n d H + 2 k d H, and the norm's H.
int64_t attention_parameters(const config::ModelConfig& model);
/// 3 H I, and the norm's H.
int64_t mlp_parameters(const config::ModelConfig& model);
/// One decoder layer: attention and MLP.
int64_t block_parameters(const config::ModelConfig& model);
/// The final norm's H, and V H unless the head is tied to the embedding.
int64_t head_parameters(const config::ModelConfig& model);
/// The whole model; a tied matrix counts once. Throws InternalError if it does not fit into 64 bits.
int64_t model_parameters(const config::ModelConfig& model);

/// Floating-point operations per token of one decoder layer's forward pass and of the head's, a multiply-add
/// counting two. Only matrix products count: norms, activations and RoPE are bound by memory. Attention
/// counts the (query, key) pairs of a causal mask, (s + 1) / 2 keys a token, which is what flash attention
/// computes.
struct ForwardFlops {
  double attention_projections = 0;  ///< q, k, v and o: 4 H n d + 4 H k d
  double attention_scores = 0;       ///< q k^T and its product with v: 2 n d (s + 1)
  double mlp = 0;                    ///< gate, up and down: 6 H I
  double head = 0;                   ///< 2 H V
  bool operator==(const ForwardFlops&) const = default;

  double block() const { return attention_projections + attention_scores + mlp; }
};

/// Per token, for sequences of `sequence_tokens`. Throws ConfigError if that is not positive.
ForwardFlops forward_flops(const config::ModelConfig& model, int64_t sequence_tokens);

/// Of the whole model's forward pass, per token.
double forward_flops_per_token(const config::ModelConfig& model, int64_t sequence_tokens);

/// Of forward and backward, per token: three times the forward pass, which is 6 N + 6 L n d (s + 1) for the N
/// parameters that are multiplied (all matrices but the embedding's). What is computed again to save memory
/// does not count, as in the usual definition of MFU (Chowdhery et al. 2022, arXiv:2204.02311, appendix B,
/// which counts attention without the mask, twice as much).
double training_flops_per_token(const config::ModelConfig& model, int64_t sequence_tokens);

enum class LayerKind : uint8_t { kEmbedding, kBlock, kHead };

/// One unit of the model when it is cut into stages.
struct LayerCost {
  LayerKind kind = LayerKind::kBlock;
  int64_t parameters = 0;
  double training_flops_per_token = 0;  ///< matrix products, forward and backward
  double memory_bytes_per_token = 0;    ///< moved by what is bound by memory, see Machine
  bool operator==(const LayerCost&) const = default;
};

/// What turns bytes into the operations that could have been done meanwhile. The defaults are those of a CPU
/// core in float32 and of a small run; balancing depends on them weakly, since matrix products dominate every
/// unit but the embedding.
struct Machine {
  double flops_per_byte = 10;     ///< arithmetic speed over memory speed
  double tokens_per_step = 8192;  ///< one optimizer step's work is spread over so many tokens
  bool operator==(const Machine&) const = default;
};

/// Embedding, every decoder layer, head. The bytes are estimates: activations as element-wise passes read and
/// write them (the head's softmax passes over the logits), and the optimizer's states, 28 bytes a parameter
/// and step.
std::vector<LayerCost> layer_costs(const config::ModelConfig& model, int64_t sequence_tokens,
                                   const Machine& machine = {});

/// The same as one number a unit, for partition: training_flops_per_token + memory_bytes_per_token *
/// flops_per_byte.
std::vector<double> unit_costs(const config::ModelConfig& model, int64_t sequence_tokens,
                               const Machine& machine = {});

}  // namespace braid::cost
