// Names and shapes of a Llama model's tensors, as written by Hugging Face's LlamaForCausalLM.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace braid::checkpoint {

inline constexpr const char* kEmbedTokensName = "model.embed_tokens.weight";
inline constexpr const char* kFinalNormName = "model.norm.weight";
inline constexpr const char* kLmHeadName = "lm_head.weight";  // absent when tied to the embedding

/// The tensors of one decoder layer.
enum class LayerTensor {
  kInputNorm,
  kQuery,
  kKey,
  kValue,
  kAttentionOutput,
  kPostAttentionNorm,
  kGate,
  kUp,
  kDown
};

inline constexpr std::array<LayerTensor, 9> kLayerTensors = {
    LayerTensor::kInputNorm,
    LayerTensor::kQuery,
    LayerTensor::kKey,
    LayerTensor::kValue,
    LayerTensor::kAttentionOutput,
    LayerTensor::kPostAttentionNorm,
    LayerTensor::kGate,
    LayerTensor::kUp,
    LayerTensor::kDown,
};

/// The sizes that determine the shapes of a Llama model.
struct LlamaSizes {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool tied = false;  // the head uses the embedding's weight
};

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;

  bool operator==(const NamedShape&) const = default;
};

/// "model.layers.3.self_attn.q_proj.weight". Throws InternalError if layer < 0.
std::string layer_tensor_name(int64_t layer, LayerTensor tensor);

/// [out, in] of a projection, [hidden] of a norm.
std::vector<int64_t> layer_tensor_shape(const LlamaSizes& sizes, LayerTensor tensor);

/// All tensors of the model from the embedding to the head, layer by layer.
std::vector<NamedShape> llama_tensors(const LlamaSizes& sizes);

/// Whether a tensor is one of old exports that every reader recomputes (the rotary frequencies).
bool is_recomputed_tensor(const std::string& name);

}  // namespace braid::checkpoint
