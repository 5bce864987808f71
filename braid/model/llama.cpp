#include "braid/model/llama.h"

#include <ATen/ATen.h>

#include <mutex>
#include <utility>

#include "braid/base/error.h"
#include "braid/kernels/rope.h"
#include "braid/layers/attention.h"
#include "braid/layers/embedding.h"
#include "braid/layers/head.h"
#include "braid/layers/mlp.h"
#include "braid/model/llama_cost.h"

namespace braid::model {
namespace {

using config::ModelConfig;
using layers::LayerSpec;
using layers::Placement;

kernels::RopeScaling rope_scaling_of(const config::RopeScaling& scaling) {
  using Type = kernels::RopeScaling::Type;
  Type type = Type::kNone;
  switch (scaling.type) {
    case config::RopeType::kDefault:
      type = Type::kNone;
      break;
    case config::RopeType::kLinear:
      type = Type::kLinear;
      break;
    case config::RopeType::kLlama3:
      type = Type::kLlama3;
      break;
  }
  return {.type = type,
          .factor = scaling.factor,
          .low_freq_factor = scaling.low_freq_factor,
          .high_freq_factor = scaling.high_freq_factor,
          .original_max_positions = scaling.original_max_position_embeddings};
}

/// The table of a model's rotary positions, created when the first layer needs it. Ranks that are threads may
/// share it.
class SharedRope {
 public:
  explicit SharedRope(const ModelConfig& config) : config_(config) {}

  kernels::RopeTable on(c10::Device device) {
    if (device.is_meta()) return {};
    const std::lock_guard lock(mutex_);
    if (!table_.cos_Sd.defined() || table_.cos_Sd.device() != device) {
      table_ = kernels::rope_table({.max_positions = config_.max_position_embeddings,
                                    .head_dim = config_.head_dim,
                                    .theta = config_.rope_theta,
                                    .scaling = rope_scaling_of(config_.rope_scaling)});
      table_ = {table_.cos_Sd.to(device), table_.sin_Sd.to(device)};
    }
    return table_;
  }

 private:
  ModelConfig config_;
  std::mutex mutex_;
  kernels::RopeTable table_;
};

/// " (early gradients)".
std::string suffix_of(const layers::Savings& savings) {
  if (savings == layers::Savings{}) return {};
  if (!savings.early_gradients) return " (core recomputed)";
  return savings.recomputes_core ? " (core recomputed, early gradients)" : " (early gradients)";
}

layers::Savings both(const layers::Savings& a, const layers::Savings& b) {
  return {.recomputes_core = a.recomputes_core || b.recomputes_core,
          .early_gradients = a.early_gradients || b.early_gradients};
}

/// The attention of the decoder layer `block`.
LayerSpec attention_spec(const ModelConfig& config, const std::string& block,
                         const std::shared_ptr<SharedRope>& rope, bool may_begin_stage,
                         const layers::Savings& savings = {}) {
  using Shape = cost::MicrobatchShape;
  return {.name = block + ".self_attn",
          .kind = "attention" + suffix_of(savings),
          .may_begin_stage = may_begin_stage,
          .block = block,
          .is_attention = true,
          .make =
              [=](const Placement& place) {
                return std::make_unique<layers::Attention>(
                    layers::Attention::Options{.name = block,
                                               .hidden = config.hidden_size,
                                               .heads = config.num_attention_heads,
                                               .key_value_heads = config.num_key_value_heads,
                                               .head_dim = config.head_dim,
                                               .norm_eps = config.rms_norm_eps,
                                               .rope = rope->on(place.device),
                                               .savings = savings,
                                               .place = place});
              },
          .work = [=](const Shape& shape) { return attention_work(config, shape, savings); },
          .saved_bytes = [=](const Shape& shape) { return attention_saved_bytes(config, shape, savings); },
          .messages = [=](const Shape& shape) { return attention_messages(config, shape, savings); },
          .saving =
              [=](const layers::Savings& more) {
                return attention_spec(config, block, rope, may_begin_stage, both(savings, more));
              }};
}

/// The MLP of the decoder layer `block`.
LayerSpec mlp_spec(const ModelConfig& config, const std::string& block, const layers::Savings& savings = {}) {
  using Shape = cost::MicrobatchShape;
  return {.name = block + ".mlp",
          .kind = "mlp" + suffix_of(savings),
          .may_begin_stage = false,
          .block = block,
          .make =
              [=](const Placement& place) {
                return std::make_unique<layers::Mlp>(
                    layers::Mlp::Options{.name = block,
                                         .hidden = config.hidden_size,
                                         .intermediate = config.intermediate_size,
                                         .norm_eps = config.rms_norm_eps,
                                         .savings = savings,
                                         .place = place});
              },
          .work = [=](const Shape& shape) { return mlp_work(config, shape, savings); },
          .saved_bytes = [=](const Shape& shape) { return mlp_saved_bytes(config, shape, savings); },
          .messages = [=](const Shape& shape) { return mlp_messages(config, shape, savings); },
          .saving =
              [=](const layers::Savings& more) {
                return mlp_spec(config, block,
                                {.early_gradients = savings.early_gradients || more.early_gradients});
              }};
}

}  // namespace

layers::ModelSpec llama_spec(const ModelConfig& config) {
  config::validate(config);
  using Shape = cost::MicrobatchShape;
  const std::string embedding = layers::Embedding::Options{}.name;
  std::vector<LayerSpec> specs;
  specs.push_back(
      {.name = "model.embed_tokens",
       .kind = "embedding",
       .may_begin_stage = false,
       .make =
           [config](const Placement& place) {
             return std::make_unique<layers::Embedding>(layers::Embedding::Options{
                 .vocabulary = config.vocab_size, .hidden = config.hidden_size, .place = place});
           },
       .work = [config](const Shape& shape) { return embedding_work(config, shape); },
       .saved_bytes = [config](const Shape& shape) { return embedding_saved_bytes(config, shape); },
       .messages = [config](const Shape& shape) { return embedding_messages(config, shape); }});
  const auto rope = std::make_shared<SharedRope>(config);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string name = cat("model.layers.", layer);
    specs.push_back(attention_spec(config, name, rope, layer > 0));
    specs.push_back(mlp_spec(config, name));
  }
  specs.push_back({.name = "lm_head",
                   .kind = "head",
                   .may_begin_stage = false,
                   .make =
                       [config, embedding](const Placement& place) {
                         layers::Head::Options options = {.hidden = config.hidden_size,
                                                          .vocabulary = config.vocab_size,
                                                          .norm_eps = config.rms_norm_eps,
                                                          .place = place};
                         if (config.tie_word_embeddings) options.name = embedding;
                         return std::make_unique<layers::Head>(options);
                       },
                   .work = [config](const Shape& shape) { return head_work(config, shape); },
                   .saved_bytes = [config](const Shape& shape) { return head_saved_bytes(config, shape); },
                   .messages = [config](const Shape& shape) { return head_messages(config, shape); }});
  // Cosine and sine of every position and half a head's elements.
  const int64_t rope_bytes =
      config.max_position_embeddings * config.head_dim * static_cast<int64_t>(sizeof(float));
  return {.layers = std::move(specs), .hidden = config.hidden_size, .table_bytes = rope_bytes};
}

}  // namespace braid::model
