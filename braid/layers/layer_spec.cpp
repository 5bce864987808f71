#include "braid/layers/layer_spec.h"

#include "braid/base/error.h"

namespace braid::layers {

std::unique_ptr<Layer> make_layer(const LayerSpec& spec, const Placement& place) {
  require<ConfigError>(static_cast<bool>(spec.make), "the spec of layer ", spec.name,
                       " has no make function");
  validate(place);
  require<ConfigError>(place.mp_degree == 1 || static_cast<bool>(spec.messages), "layer ", spec.name,
                       " cannot be cut across ", place.mp_degree,
                       " ranks, as its spec does not state its messages: use mp_degree 1");
  return spec.make(place);
}

std::unique_ptr<Layer> make_without_data(const LayerSpec& spec, Placement place) {
  place.device = c10::Device(c10::kMeta);
  place.mp = nullptr;
  return make_layer(spec, place);
}

Placement placement_of(const cost::MicrobatchShape& shape) {
  return {.device = c10::Device(c10::kMeta),
          .mp_index = shape.mp_index,
          .mp_degree = shape.mp_degree,
          .sequence_parallel = shape.sequence_parallel};
}

cost::LayerWork work_of(const LayerSpec& spec, const cost::MicrobatchShape& shape) {
  if (spec.work) return spec.work(shape);
  const std::unique_ptr<Layer> layer = make_without_data(spec, placement_of(shape));
  double multiplied = 0;
  for (const tensor::Parameter* parameter : parameters_of(*layer)) {
    if (parameter->sizes().size() > 1) multiplied += static_cast<double>(parameter->numel());
  }
  return {.forward_flops = 2 * multiplied, .activation_elements = 0};
}

MpMessages messages_of(const LayerSpec& spec, const cost::MicrobatchShape& shape) {
  return spec.messages ? spec.messages(shape) : MpMessages{};
}

std::vector<tensor::LayerParameters> parameters_by_layer(std::span<const std::unique_ptr<Layer>> layers,
                                                         std::span<const LayerSpec> specs) {
  require<InternalError>(layers.size() == specs.size(), "got ", layers.size(), " layers of ", specs.size(),
                         " specs");
  std::vector<tensor::LayerParameters> result;
  for (size_t i = 0; i < layers.size(); ++i) {
    result.push_back({.layer = specs[i].name, .parameters = parameters_of(*layers[i])});
  }
  return result;
}

}  // namespace braid::layers
