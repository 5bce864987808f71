#include "braid/checkpoint/llama_names.h"

#include "braid/base/error.h"

namespace braid::checkpoint {
namespace {

const char* suffix(LayerTensor tensor) {
  switch (tensor) {
    case LayerTensor::kInputNorm:
      return "input_layernorm";
    case LayerTensor::kQuery:
      return "self_attn.q_proj";
    case LayerTensor::kKey:
      return "self_attn.k_proj";
    case LayerTensor::kValue:
      return "self_attn.v_proj";
    case LayerTensor::kAttentionOutput:
      return "self_attn.o_proj";
    case LayerTensor::kPostAttentionNorm:
      return "post_attention_layernorm";
    case LayerTensor::kGate:
      return "mlp.gate_proj";
    case LayerTensor::kUp:
      return "mlp.up_proj";
    case LayerTensor::kDown:
      return "mlp.down_proj";
  }
  throw InternalError(cat("layer tensor ", static_cast<int>(tensor), " has no name"));
}

}  // namespace

std::string layer_tensor_name(int64_t layer, LayerTensor tensor) {
  require<InternalError>(layer >= 0, "layer must be >= 0, got ", layer);
  return cat("model.layers.", layer, ".", suffix(tensor), ".weight");
}

std::vector<int64_t> layer_tensor_shape(const LlamaSizes& sizes, LayerTensor tensor) {
  switch (tensor) {
    case LayerTensor::kInputNorm:
    case LayerTensor::kPostAttentionNorm:
      return {sizes.hidden};
    case LayerTensor::kQuery:
      return {sizes.heads * sizes.head_dim, sizes.hidden};
    case LayerTensor::kKey:
    case LayerTensor::kValue:
      return {sizes.kv_heads * sizes.head_dim, sizes.hidden};
    case LayerTensor::kAttentionOutput:
      return {sizes.hidden, sizes.heads * sizes.head_dim};
    case LayerTensor::kGate:
    case LayerTensor::kUp:
      return {sizes.intermediate, sizes.hidden};
    case LayerTensor::kDown:
      return {sizes.hidden, sizes.intermediate};
  }
  throw InternalError(cat("layer tensor ", static_cast<int>(tensor), " has no shape"));
}

std::vector<NamedShape> llama_tensors(const LlamaSizes& sizes) {
  std::vector<NamedShape> tensors;
  tensors.push_back({kEmbedTokensName, {sizes.vocab, sizes.hidden}});
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    for (const LayerTensor tensor : kLayerTensors) {
      tensors.push_back({layer_tensor_name(layer, tensor), layer_tensor_shape(sizes, tensor)});
    }
  }
  tensors.push_back({kFinalNormName, {sizes.hidden}});
  if (!sizes.tied) tensors.push_back({kLmHeadName, {sizes.vocab, sizes.hidden}});
  return tensors;
}

bool is_recomputed_tensor(const std::string& name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace braid::checkpoint
