#include "braid/layers/layer_spec.h"

#include "braid/base/error.h"

namespace braid::layers {

std::unique_ptr<Layer> make_without_data(const LayerSpec& spec) {
  require<ConfigError>(static_cast<bool>(spec.make), "the spec of layer ", spec.name,
                       " has no make function");
  return spec.make(c10::Device(c10::kMeta));
}

cost::LayerWork work_of(const LayerSpec& spec, const cost::MicrobatchShape& shape) {
  if (spec.work) return spec.work(shape);
  const std::unique_ptr<Layer> layer = make_without_data(spec);
  double multiplied = 0;
  for (const tensor::Parameter* parameter : parameters_of(*layer)) {
    if (parameter->sizes().size() > 1) multiplied += static_cast<double>(parameter->numel());
  }
  return {.forward_flops = 2 * multiplied, .activation_elements = 0};
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
