// Parameters, arithmetic and saved bytes of a Llama's layers, as formulas.
//
// H hidden size, I intermediate size, V vocabulary, n and k query and key-value heads, d head size, s tokens
// per sequence.
#pragma once

#include <cstdint>

#include "braid/config/model_config.h"
#include "braid/cost/layer_cost.h"

namespace braid::model {

/// The whole model; a tied matrix counts once. Throws InternalError if it does not fit into 64 bits.
int64_t llama_parameters(const config::ModelConfig& model);

/// Of the layers: the embedding, the two halves of a decoder layer, the head. Attention counts the (query,
/// key) pairs of a causal mask, (s + 1) / 2 keys per token, which is what flash attention computes; the total
/// is 6 N + 6 L n d (s + 1) operations per token and training step for the N parameters that are multiplied
/// (all matrices but the embedding's), not counting recomputation to save memory, as in the usual definition
/// of MFU (Chowdhery et al. 2022, arXiv:2204.02311, appendix B, which counts attention without the mask,
/// twice as much). Throws ConfigError if the sequence has no tokens.
cost::LayerWork embedding_work(const config::ModelConfig& model);
cost::LayerWork attention_work(const config::ModelConfig& model, int64_t sequence_tokens);
cost::LayerWork mlp_work(const config::ModelConfig& model);
cost::LayerWork head_work(const config::ModelConfig& model);

/// The contents of the layers' records.
cost::SavedBytes embedding_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape);
cost::SavedBytes attention_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape);
cost::SavedBytes mlp_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape);
cost::SavedBytes head_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape);

}  // namespace braid::model
