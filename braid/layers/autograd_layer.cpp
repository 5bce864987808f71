#include "braid/layers/autograd_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "braid/base/error.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

AutogradLayer::AutogradLayer(std::function<at::Tensor(const at::Tensor&)> function,
                             const std::vector<std::pair<std::string, at::Tensor>>& parameters)
    : function_(std::move(function)) {
  for (const auto& [name, leaf] : parameters) {
    require<ShapeError>(leaf.is_leaf() && leaf.requires_grad(), "parameter ", name,
                        " must be a leaf tensor that requires grad");
    leaves_.push_back(leaf);
    auto parameter = std::make_unique<tensor::Parameter>();
    parameter->name = name;
    parameter->value = leaf.detach();  // the same storage: what the optimizer writes, `function` reads
    parameter->main_grad = at::empty_like(parameter->value, tensor::main_dtype(leaf.scalar_type()));
    parameter->decays = leaf.dim() > 1;
    parameter->rows = {{name, 0, leaf.dim() == 0 ? 1 : leaf.size(0)}};
    parameters_.push_back(std::move(parameter));
  }
}

at::Tensor AutogradLayer::forward(const at::Tensor& x, Saved* saved) {
  if (saved == nullptr) {
    const at::NoGradGuard no_grad;
    return function_(x);
  }
  const at::AutoGradMode record(true);
  auto& kept = static_cast<AutogradSaved&>(*saved);
  kept.x = x.detach();
  if (kept.x.is_floating_point()) kept.x.requires_grad_(true);
  kept.y = function_(kept.x);
  return kept.y.detach();
}

at::Tensor AutogradLayer::backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<AutogradSaved&>(saved);
  kept.dy = dy;
  if (!kept.x.requires_grad()) return {};
  const bool keep_graph = !leaves_.empty();
  return torch::autograd::grad({kept.y}, {kept.x}, {dy}, keep_graph)[0];
}

void AutogradLayer::backward_weight(Saved& saved) {
  auto& kept = static_cast<AutogradSaved&>(saved);
  if (!leaves_.empty()) {
    const auto gradients =
        torch::autograd::grad({kept.y}, leaves_, {kept.dy}, false, false, /*allow_unused=*/true);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      tensor::Parameter& parameter = *parameters_[i];
      const bool first = start_gradient(parameter) == kernels::Accumulate::kOverwrite;
      if (first) parameter.main_grad.zero_();
      if (gradients[i].defined()) parameter.main_grad.add_(gradients[i]);
    }
  }
  kept = {};
}

void AutogradLayer::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  for (const auto& parameter : parameters_) parameters.push_back(parameter.get());
}

}  // namespace braid::layers
