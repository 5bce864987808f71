#include "braid/layers/autograd_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "braid/base/error.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

namespace {

/// The gradient of dy . y with respect to x; nothing if x has none. The graph is kept if W needs it.
at::Tensor input_gradient(const AutogradSaved& kept, bool keep_graph) {
  if (!kept.x.requires_grad()) return {};
  return torch::autograd::grad({kept.y}, {kept.x}, {kept.dy}, keep_graph)[0];
}

at::Tensor as_input(const at::Tensor& x) {
  at::Tensor input = x.detach();
  if (input.is_floating_point()) input.requires_grad_(true);
  return input;
}

}  // namespace

AutogradParameters::AutogradParameters(const std::vector<NamedLeaf>& leaves) {
  for (const auto& [name, leaf] : leaves) {
    require<ShapeError>(leaf.is_leaf() && leaf.requires_grad(), "parameter ", name,
                        " must be a leaf tensor that requires grad");
    leaves_.push_back(leaf);
    auto parameter = std::make_unique<tensor::Parameter>(
        tensor::declare_parameter({tensor::whole_tensor(name, leaf.sizes().vec())}));
    parameter->initial = tensor::InitialValues::kGiven;
    parameter->leaf = leaf;  // the function reads what the optimizer writes
    parameters_.push_back(std::move(parameter));
  }
}

void AutogradParameters::append_to(std::vector<tensor::Parameter*>& parameters) {
  for (const auto& parameter : parameters_) parameters.push_back(parameter.get());
}

void AutogradParameters::accumulate(const at::Tensor& y, const at::Tensor& dy) {
  if (leaves_.empty()) return;
  const auto gradients = torch::autograd::grad({y}, leaves_, {dy}, false, false, /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    tensor::Parameter& parameter = *parameters_[i];
    const bool first = start_gradient(parameter) == kernels::Accumulate::kOverwrite;
    if (first) parameter.main_grad.zero_();
    if (gradients[i].defined()) parameter.main_grad.add_(gradients[i]);
  }
}

at::Tensor AutogradLayer::forward(const at::Tensor& x, Saved* saved) {
  if (saved == nullptr) {
    const at::NoGradGuard no_grad;
    return function_(x);
  }
  const at::AutoGradMode record(true);
  auto& kept = static_cast<AutogradSaved&>(*saved);
  kept.x = as_input(x);
  kept.y = function_(kept.x);
  return kept.y.detach();
}

at::Tensor AutogradLayer::backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<AutogradSaved&>(saved);
  kept.dy = dy;
  return input_gradient(kept, !parameters_.empty());
}

void AutogradLayer::backward_weight(Saved& saved) {
  auto& kept = static_cast<AutogradSaved&>(saved);
  parameters_.accumulate(kept.y, kept.dy);
  kept = {};
}

at::Tensor AutogradLossLayer::forward(const at::Tensor&, Saved*) {
  throw ConfigError("a loss defined by an autograd function has no predictions to generate from");
}

Loss AutogradLossLayer::loss(const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                             Saved* saved) {
  const int64_t tokens = labels.ne(-100).sum().item<int64_t>();
  if (saved == nullptr) {
    const at::NoGradGuard no_grad;
    return {.sum = function_(x, labels).item<double>(), .tokens = tokens};
  }
  const at::AutoGradMode record(true);
  auto& kept = static_cast<AutogradSaved&>(*saved);
  kept.x = as_input(x);
  kept.y = function_(kept.x, labels);
  // In 16 bits the sum and the gradient's scale would be rounded.
  const bool is_wide = kept.y.scalar_type() == at::kFloat || kept.y.scalar_type() == at::kDouble;
  require<ShapeError>(kept.y.dim() == 0 && is_wide,
                      "a loss function must return a scalar of float32 or float64, got ", kept.y.sizes(),
                      " of ", kept.y.dtype());
  kept.dy = at::full_like(kept.y, gradient_scale).detach();
  return {.sum = kept.y.item<double>(), .tokens = tokens};
}

at::Tensor AutogradLossLayer::backward_input(const at::Tensor&, Saved& saved) {
  return input_gradient(static_cast<AutogradSaved&>(saved), !parameters_.empty());
}

void AutogradLossLayer::backward_weight(Saved& saved) {
  auto& kept = static_cast<AutogradSaved&>(saved);
  parameters_.accumulate(kept.y, kept.dy);
  kept = {};
}

}  // namespace braid::layers
