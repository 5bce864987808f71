// Parameters, arithmetic, saved bytes and messages of a Llama's layers, as formulas.
//
// H hidden size, I intermediate size, V vocabulary, n and k query and key-value heads, d head size, s tokens
// per sequence. All but llama_parameters are those of the shape's rank of an mp group (layers/placement.h),
// and throw ConfigError, as making the layer does, if the group cannot cut the model.
#pragma once

#include <cstdint>

#include "braid/config/model_config.h"
#include "braid/cost/layer_cost.h"
#include "braid/layers/mp_messages.h"
#include "braid/layers/savings.h"

namespace braid::model {

/// The whole model; a tied matrix counts once. Throws InternalError if it does not fit into 64 bits.
int64_t llama_parameters(const config::ModelConfig& model);

/// Of the layers: the embedding, the two halves of a decoder layer, the head. Attention counts the (query,
/// key) pairs of a causal mask, (s + 1) / 2 keys per token, which is what flash attention computes; the total
/// is 6 N + 6 L n d (s + 1) operations per token and training step for the N parameters that are multiplied
/// (all matrices but the embedding's), not counting recomputation to save memory, as in the usual definition
/// of MFU (Chowdhery et al. 2022, arXiv:2204.02311, appendix B, which counts attention without the mask,
/// twice as much). Of `shape` only the place in the mp group counts, and, for attention, s: throws
/// ConfigError if the sequence has no tokens.
cost::LayerWork embedding_work(const config::ModelConfig& model, const cost::MicrobatchShape& shape = {});
cost::LayerWork attention_work(const config::ModelConfig& model, const cost::MicrobatchShape& shape,
                               const layers::Savings& savings = {});
cost::LayerWork mlp_work(const config::ModelConfig& model, const cost::MicrobatchShape& shape = {},
                         const layers::Savings& savings = {});
cost::LayerWork head_work(const config::ModelConfig& model, const cost::MicrobatchShape& shape = {});

/// The contents of the layers' records.
cost::SavedBytes embedding_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape);
cost::SavedBytes attention_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape,
                                       const layers::Savings& savings = {});
cost::SavedBytes mlp_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape,
                                 const layers::Savings& savings = {});
cost::SavedBytes head_saved_bytes(const config::ModelConfig& model, const cost::MicrobatchShape& shape);

/// The collectives of the layers. Per microbatch of T rows, and with all sums S = T H elements: without
/// sequence parallelism an all-reduce of S in the embedding's F and the head's, and in F and B of either half
/// of a decoder layer. With it each becomes a reduce-scatter; both halves and the head also gather S in F,
/// the halves S in B and twice S in W (of which a fused backward needs one), the embedding S in W. The head
/// gathers 3 T statistics, block by block. Recomputing a half repeats what F exchanges but the sum. With
/// early gradients a half gathers S once in W; attention does the other in B, the MLP not at all.
layers::MpMessages embedding_messages(const config::ModelConfig& model, const cost::MicrobatchShape& shape);
layers::MpMessages attention_messages(const config::ModelConfig& model, const cost::MicrobatchShape& shape,
                                      const layers::Savings& savings = {});
layers::MpMessages mlp_messages(const config::ModelConfig& model, const cost::MicrobatchShape& shape,
                                const layers::Savings& savings = {});
layers::MpMessages head_messages(const config::ModelConfig& model, const cost::MicrobatchShape& shape);

}  // namespace braid::model
