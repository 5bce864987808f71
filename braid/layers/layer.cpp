#include "braid/layers/layer.h"

#include <ATen/ATen.h>

#include <set>
#include <utility>

namespace braid::layers {

int64_t Saved::bytes() const {
  std::set<const void*> counted;
  int64_t sum = 0;
  std::vector<const at::Tensor*> held = tensors();
  held.push_back(&result);
  for (const at::Tensor* t : held) {
    if (t->defined() && counted.insert(t->storage().data()).second)
      sum += static_cast<int64_t>(t->storage().nbytes());
  }
  return sum;
}

void Layer::begin_forward(const at::Tensor& x, Saved& saved) { saved.result = forward(x, &saved); }

at::Tensor Layer::end_forward(Saved& saved) { return std::exchange(saved.result, {}); }

void Layer::recompute(const at::Tensor& x, Saved& saved) { forward(x, &saved); }

void Layer::begin_backward_input(const at::Tensor& dy, Saved& saved) {
  saved.result = backward_input(dy, saved);
}

at::Tensor Layer::end_backward_input(Saved& saved) { return std::exchange(saved.result, {}); }

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
