// Any differentiable function or torch::nn::Module as a Layer, with B and W through libtorch's autograd.
//
// B asks autograd for only the gradient of the input and keeps the graph; W asks for only the gradients of
// the parameters and drops the graph. A split backward therefore computes the activation gradients twice:
// write the three methods by hand if that matters.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "braid/layers/layer.h"

namespace braid::layers {

/// From F to B: input, output and autograd's graph between them (whose own tensors bytes() does not see).
/// From B to W: those and dy.
class AutogradSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override { return {&x, &y, &dy}; }
  at::Tensor x, y, dy;
};

/// A named leaf tensor that requires grad.
using NamedLeaf = std::pair<std::string, at::Tensor>;

/// The parameters of a differentiable function, and the accumulation of autograd's gradients in them.
class AutogradParameters {
 public:
  /// Throws ShapeError for a tensor that is not a leaf or does not require grad.
  explicit AutogradParameters(const std::vector<NamedLeaf>& leaves);

  bool empty() const { return leaves_.empty(); }
  void append_to(std::vector<tensor::Parameter*>& parameters);

  /// Adds the gradients of dy . y, whose graph is dropped.
  void accumulate(const at::Tensor& y, const at::Tensor& dy);

 private:
  std::vector<at::Tensor> leaves_;
  std::vector<std::unique_ptr<tensor::Parameter>> parameters_;
};

class AutogradLayer final : public Layer {
 public:
  /// `function` maps [b, s, H] to [b, s, H'] and is differentiable with respect to x and `parameters`, which
  /// must be the tensors that it uses: they keep their initial values and share memory with this layer's
  /// parameters.
  AutogradLayer(std::function<at::Tensor(const at::Tensor&)> function,
                const std::vector<NamedLeaf>& parameters)
      : function_(std::move(function)), parameters_(parameters) {}

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<AutogradSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters_.append_to(parameters);
  }

 private:
  std::function<at::Tensor(const at::Tensor&)> function_;
  AutogradParameters parameters_;
};

/// The end of a model: a loss through autograd.
class AutogradLossLayer final : public LossLayer {
 public:
  /// `function` maps x [b, s, H] and labels to the sum of the losses, a scalar, and is differentiable with
  /// respect to x and `parameters`.
  AutogradLossLayer(std::function<at::Tensor(const at::Tensor& x, const at::Tensor& labels)> function,
                    const std::vector<NamedLeaf>& parameters = {})
      : function_(std::move(function)), parameters_(parameters) {}

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<AutogradSaved>(); }
  /// Throws ConfigError: a loss function has no predictions.
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  Loss loss(const at::Tensor& x, const at::Tensor& labels, double gradient_scale, Saved* saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters_.append_to(parameters);
  }

 private:
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> function_;
  AutogradParameters parameters_;
};

/// `module` (a shared_ptr to a torch::nn::Module with forward(Tensor) -> Tensor) as a Layer; parameter names
/// get `prefix`. Include <torch/nn/module.h> yourself: this header avoids its cost.
template <typename Module>
std::unique_ptr<Layer> make_module_layer(std::shared_ptr<Module> module, const std::string& prefix) {
  std::vector<NamedLeaf> parameters;
  for (const auto& item : module->named_parameters())
    parameters.emplace_back(prefix + item.key(), item.value());
  return std::make_unique<AutogradLayer>([module](const at::Tensor& x) { return module->forward(x); },
                                         parameters);
}

}  // namespace braid::layers
