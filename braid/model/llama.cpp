#include "braid/model/llama.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "braid/base/error.h"
#include "braid/base/random.h"
#include "braid/base/text.h"
#include "braid/layers/attention.h"
#include "braid/layers/mlp.h"

namespace braid::model {
namespace {

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

/// Standard normal values times `deviation`, number i of the stream `key` at element i. Made on the CPU, the
/// same for every device.
at::Tensor normal_values(uint64_t key, at::IntArrayRef shape, double deviation) {
  at::Tensor values = at::empty(shape, at::kFloat);
  float* data = values.mutable_data_ptr<float>();
  const int64_t count = values.numel();
  constexpr int64_t kPairsPerTask = 1 << 14;
  at::parallel_for(0, (count + 1) / 2, kPairsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const auto normal = normal_pair(key, static_cast<uint64_t>(pair));
      data[2 * pair] = static_cast<float>(normal[0] * deviation);
      if (2 * pair + 1 < count) data[2 * pair + 1] = static_cast<float>(normal[1] * deviation);
    }
  });
  return values;
}

}  // namespace

Stage make_stage(const config::ModelConfig& config, const StageRange& range, at::TensorOptions options) {
  config::validate(config);
  require<InternalError>(0 <= range.first_layer && range.first_layer <= range.end_layer &&
                             range.end_layer <= config.num_hidden_layers,
                         "a stage of layers [", range.first_layer, ", ", range.end_layer,
                         ") does not lie within ", config.num_hidden_layers, " layers");
  Stage stage;
  if (range.has_embedding) {
    auto embedding = std::make_unique<layers::Embedding>(layers::Embedding::Options{
        .vocabulary = config.vocab_size, .hidden = config.hidden_size, .tensor_options = options});
    stage.embedding = embedding.get();
    stage.layers.push_back(std::move(embedding));
  }
  kernels::RopeTable rope = kernels::rope_table({.max_positions = config.max_position_embeddings,
                                                 .head_dim = config.head_dim,
                                                 .theta = config.rope_theta,
                                                 .scaling = rope_scaling_of(config.rope_scaling)});
  rope = {rope.cos_Sd.to(options.device()), rope.sin_Sd.to(options.device())};
  for (int64_t layer = range.first_layer; layer < range.end_layer; ++layer) {
    const std::string name = cat("model.layers.", layer);
    stage.layers.push_back(std::make_unique<layers::Attention>(
        layers::Attention::Options{.name = name,
                                   .hidden = config.hidden_size,
                                   .heads = config.num_attention_heads,
                                   .key_value_heads = config.num_key_value_heads,
                                   .head_dim = config.head_dim,
                                   .norm_eps = config.rms_norm_eps,
                                   .rope = rope,
                                   .tensor_options = options}));
    stage.layers.push_back(
        std::make_unique<layers::Mlp>(layers::Mlp::Options{.name = name,
                                                           .hidden = config.hidden_size,
                                                           .intermediate = config.intermediate_size,
                                                           .norm_eps = config.rms_norm_eps,
                                                           .tensor_options = options}));
  }
  if (range.has_head) {
    auto head = std::make_unique<layers::Head>(layers::Head::Options{.hidden = config.hidden_size,
                                                                     .vocabulary = config.vocab_size,
                                                                     .norm_eps = config.rms_norm_eps,
                                                                     .tensor_options = options});
    stage.head = head.get();
    if (config.tie_word_embeddings) tie(*head, stage.embedding);
    stage.layers.push_back(std::move(head));
  }
  return stage;
}

void tie(layers::Head& head, layers::Embedding* embedding) {
  tensor::Parameter& weight = head.projection().weight();
  weight.rows = {{layers::Embedding::Options{}.name, 0, weight.value.size(0)}};
  if (embedding != nullptr) weight.value = embedding->weight().value;
}

void initialise(const std::vector<tensor::Parameter*>& parameters, const config::ModelConfig& config,
                uint64_t seed) {
  for (tensor::Parameter* parameter : parameters) {
    if (parameter->value.dim() == 1) {
      parameter->value.fill_(1.0);
      continue;
    }
    for (const tensor::NamedRows& rows : parameter->rows) {
      at::Tensor part = parameter->value.narrow(0, rows.begin, rows.end - rows.begin);
      part.copy_(normal_values(seed_for(seed, rows.name), part.sizes(), config.initializer_range));
    }
  }
}

}  // namespace braid::model
