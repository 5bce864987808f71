#include "braid/layers/layer.h"

#include <ATen/ATen.h>

#include <set>

namespace braid::layers {

int64_t Saved::bytes() const {
  std::set<const void*> counted;
  int64_t sum = 0;
  for (const at::Tensor* t : tensors()) {
    if (t->defined() && counted.insert(t->storage().data()).second)
      sum += static_cast<int64_t>(t->storage().nbytes());
  }
  return sum;
}

at::Tensor Layer::backward(const at::Tensor& dy, Saved& saved) {
  at::Tensor dx = backward_input(dy, saved);
  backward_weight(saved);
  return dx;
}

std::vector<tensor::Parameter*> parameters_of(Layer& layer) {
  std::vector<tensor::Parameter*> parameters;
  layer.append_parameters(parameters);
  return parameters;
}

std::vector<tensor::Parameter*> parameters_of(std::span<const std::unique_ptr<Layer>> layers) {
  std::vector<tensor::Parameter*> parameters;
  for (const auto& layer : layers) layer->append_parameters(parameters);
  return parameters;
}

}  // namespace braid::layers
