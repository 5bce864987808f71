// For tests of layers: runs F, B and W of a layer on several microbatches and compares with autograd on a
// plain formula.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "braid/layers/layer.h"
#include "braid/tensor/segment.h"

namespace braid::layers::testing {

/// Allocates the parameters of a single layer.
inline void allocate(Layer& layer, at::TensorOptions options) {
  const std::vector<tensor::LayerParameters> parameters = {{.layer = "", .parameters = parameters_of(layer)}};
  tensor::allocate_segments(tensor::lay_out_segments(parameters, {}, 4), options);
}

/// The same, and fills every parameter with normal values (norm weights around 1), the same for the same
/// seed.
inline void randomise(Layer& layer, at::TensorOptions options, uint64_t seed, double deviation) {
  allocate(layer, options);
  std::vector<tensor::Parameter*> parameters;
  layer.append_parameters(parameters);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (tensor::Parameter* p : parameters) {
    const double mean = p->value.dim() == 1 ? 1.0 : 0.0;
    p->value.copy_(at::normal(mean, deviation, p->value.sizes(), generator, at::kDouble));
  }
}

/// The largest |a - b| over the largest |b|, in float64.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const double scale = b.to(at::kDouble).abs().max().item<double>();
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() / (scale == 0 ? 1 : scale);
}

/// y = reference(x, weights) in float64; weights in the order of append_parameters.
using Reference = std::function<at::Tensor(const at::Tensor& x, const std::vector<at::Tensor>& weights)>;

/// Runs F, B, W of `layer` on `inputs` in the order given by `split` (all F, all B, all W; or F, B, W of one
/// microbatch after another) and compares outputs, input gradients and summed weight gradients with
/// autograd's on `reference` in float64. Every comparison must be within `bound` relative to the largest
/// value. Also checks that nothing is left in a record after W.
enum class Order { kOneByOne, kAllForwardsFirst };
inline void expect_like_autograd(Layer& layer, const Reference& reference,
                                 const std::vector<at::Tensor>& inputs, Order order, double bound) {
  std::vector<tensor::Parameter*> parameters;
  layer.append_parameters(parameters);
  std::vector<at::Tensor> weights;
  for (const tensor::Parameter* p : parameters)
    weights.push_back(p->value.to(at::kDouble).clone().requires_grad_(true));

  std::vector<at::Tensor> xs, ys, dys;
  for (size_t m = 0; m < inputs.size(); ++m) {
    at::Tensor x = inputs[m];
    if (x.is_floating_point()) x = x.to(at::kDouble).clone().requires_grad_(true);
    const at::AutoGradMode record(true);
    xs.push_back(x);
    ys.push_back(reference(x, weights));
    auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + m);
    // Rounded to the layer's dtype first, so that both sides see the same numbers.
    const at::ScalarType dtype = parameters.empty() ? at::kDouble : parameters[0]->value.scalar_type();
    dys.push_back(at::normal(0.0, 1.0, ys.back().sizes(), generator, at::kDouble).to(dtype));
  }

  const at::NoGradGuard no_grad;
  std::vector<std::unique_ptr<Saved>> saved;
  std::vector<at::Tensor> dxs(inputs.size());
  const auto forward = [&](size_t m) {
    saved.push_back(layer.make_saved());
    const at::Tensor y = layer.forward(inputs[m], saved.back().get());
    EXPECT_LE(relative_error(y, ys[m]), bound) << "output of microbatch " << m;
    EXPECT_TRUE(at::equal(layer.forward(inputs[m], nullptr), y))
        << "evaluation and training give different numbers";
    EXPECT_GT(saved.back()->bytes(), 0);
  };
  const auto backward_input = [&](size_t m) { dxs[m] = layer.backward_input(dys[m], *saved[m]); };
  const auto backward_weight = [&](size_t m) {
    layer.backward_weight(*saved[m]);
    EXPECT_EQ(saved[m]->bytes(), 0) << "W left something of microbatch " << m;
  };
  if (order == Order::kOneByOne) {
    for (size_t m = 0; m < inputs.size(); ++m) {
      forward(m);
      backward_input(m);
      backward_weight(m);
    }
  } else {
    for (size_t m = 0; m < inputs.size(); ++m) forward(m);
    for (size_t m = 0; m < inputs.size(); ++m) backward_input(m);
    for (size_t m = 0; m < inputs.size(); ++m) backward_weight(m);
  }

  std::vector<at::Tensor> sums;
  for (size_t m = 0; m < inputs.size(); ++m) {
    std::vector<at::Tensor> wanted = weights;
    const bool has_dx = xs[m].requires_grad();
    if (has_dx) wanted.push_back(xs[m]);
    auto gradients = torch::autograd::grad({ys[m]}, wanted, {dys[m].to(at::kDouble)});
    if (has_dx) {
      EXPECT_LE(relative_error(dxs[m], gradients.back()), bound) << "input gradient of microbatch " << m;
    } else {
      EXPECT_FALSE(dxs[m].defined());
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      if (m == 0)
        sums.push_back(gradients[i].clone());
      else
        sums[i].add_(gradients[i]);
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_LE(relative_error(parameters[i]->main_grad, sums[i]), bound)
        << "gradient of " << parameters[i]->name;
  }
}

}  // namespace braid::layers::testing
