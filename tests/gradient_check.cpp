// Compares every layer's F, B and W on a device with autograd on the plain formula in float64 on the CPU.
// Needs no test framework, so that a machine with only libtorch and a GPU can run it: tests/gradient_check
// DEVICE (cpu or cuda). Prints a line per layer and dtype; exits with 1 if one is wrong.
//
// Bounds as in braid/layers/layers_test.cpp: a chain of 16 roundings, sums of up to 256 terms.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "braid/layers/attention.h"
#include "braid/layers/embedding.h"
#include "braid/layers/head.h"
#include "braid/layers/mlp.h"
#include "braid/layers/reference.h"
#include "braid/layers/rms_norm.h"
#include "braid/tensor/memory.h"
#include "braid/tensor/segment.h"

namespace {

using braid::layers::Layer;
using braid::tensor::Parameter;
using Reference = std::function<at::Tensor(const at::Tensor&, const std::vector<at::Tensor>&)>;

double bound_of(at::ScalarType dtype) { return dtype == at::kFloat ? 0x1p-24 * 16 * 16 : 0x1p-8 * 8; }

at::Tensor normal(at::IntArrayRef shape, uint64_t seed, double mean = 0.0, double deviation = 1.0) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::normal(mean, deviation, shape, generator, at::kDouble);
}

double error_of(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor a = got.cpu().to(at::kDouble), b = expected.to(at::kDouble);
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

class Checker {
 public:
  explicit Checker(at::Device device) : device_(device) {}

  int failures() const { return failures_; }

  /// F, B and W of `layer` on two microbatches, all forwards first.
  void check(const std::string& name, at::ScalarType dtype, Layer& layer, const Reference& reference,
             const std::vector<at::Tensor>& inputs) {
    std::vector<Parameter*> parameters;
    layer.append_parameters(parameters);
    std::vector<at::Tensor> weights = randomise(parameters, options(dtype));
    double worst = 0;
    std::vector<std::unique_ptr<braid::layers::Saved>> saved;
    std::vector<at::Tensor> sums, expected_dx, dys;
    for (size_t m = 0; m < inputs.size(); ++m) {
      const bool floating = inputs[m].is_floating_point();
      at::Tensor x = floating ? inputs[m].to(dtype) : inputs[m];
      at::Tensor x_reference = floating ? x.to(at::kDouble).requires_grad_(true) : x;
      const at::Tensor y_reference = reference(x_reference, weights);
      dys.push_back(normal(y_reference.sizes(), 50 + m).to(dtype));
      std::vector<at::Tensor> wanted = weights;
      if (floating) wanted.push_back(x_reference);
      auto gradients = torch::autograd::grad({y_reference}, wanted, {dys.back().to(at::kDouble)});
      expected_dx.push_back(floating ? gradients.back() : at::Tensor());
      for (size_t i = 0; i < weights.size(); ++i) {
        if (m == 0) {
          sums.push_back(gradients[i]);
        } else {
          sums[i] = sums[i] + gradients[i];
        }
      }
      const at::NoGradGuard no_grad;
      saved.push_back(layer.make_saved());
      worst = std::max(worst, error_of(layer.forward(x.to(device_), saved.back().get()), y_reference));
    }
    const at::NoGradGuard no_grad;
    bool left = false;
    for (size_t m = 0; m < inputs.size(); ++m) {
      const at::Tensor dx = layer.backward_input(dys[m].to(device_), *saved[m]);
      if (dx.defined()) worst = std::max(worst, error_of(dx, expected_dx[m]));
    }
    for (size_t m = 0; m < inputs.size(); ++m) {
      layer.backward_weight(*saved[m]);
      left |= !saved[m]->empty();
    }
    for (size_t i = 0; i < weights.size(); ++i)
      worst = std::max(worst, error_of(parameters[i]->main_grad, sums[i]));
    report(name, dtype, worst, left);
  }

  void check_head(at::ScalarType dtype) {
    braid::layers::Head head({.hidden = 64, .vocabulary = 199, .logits_bytes = 4096});
    std::vector<Parameter*> parameters;
    head.append_parameters(parameters);
    const std::vector<at::Tensor> weights = randomise(parameters, options(dtype));
    const at::Tensor x = normal({2, 16, 64}, 3).to(dtype);
    const at::Tensor labels = at::arange(32, at::kLong).view({2, 16});
    const at::Tensor x_reference = x.to(at::kDouble).requires_grad_(true);
    const at::Tensor expected = braid::layers::reference::loss_sum(x_reference, labels, weights, 1e-6);
    const auto gradients = torch::autograd::grad({expected}, {weights[0], weights[1], x_reference});
    const at::NoGradGuard no_grad;
    braid::layers::HeadSaved saved;
    const auto loss = head.loss(x.to(device_), labels.to(device_), 1.0, &saved);
    double worst = std::abs(loss.sum / expected.item<double>() - 1.0);
    worst = std::max(worst, error_of(head.backward_input({}, saved), gradients[2]));
    head.backward_weight(saved);
    for (size_t i = 0; i < 2; ++i) worst = std::max(worst, error_of(parameters[i]->main_grad, gradients[i]));
    report("head and loss", dtype, worst, !saved.empty());
  }

  at::TensorOptions options(at::ScalarType dtype) const { return at::TensorOptions(device_).dtype(dtype); }

 private:
  static std::vector<at::Tensor> randomise(const std::vector<Parameter*>& parameters,
                                           at::TensorOptions options) {
    const std::vector<braid::tensor::LayerParameters> layer = {{.layer = "", .parameters = parameters}};
    braid::tensor::allocate_segments(braid::tensor::lay_out_segments(layer, {}, 4), options);
    std::vector<at::Tensor> weights;
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor& value = parameters[i]->value;
      value.copy_(normal(value.sizes(), 10 + i, value.dim() == 1 ? 1.0 : 0.0, 0.1));
      weights.push_back(value.cpu().to(at::kDouble).requires_grad_(true));
    }
    return weights;
  }

  void report(const std::string& name, at::ScalarType dtype, double worst, bool left) {
    const bool good = worst <= bound_of(dtype) && !left;
    failures_ += good ? 0 : 1;
    std::printf("%-28s %-9s largest relative error %.2e (bound %.2e) %s%s\n", name.c_str(),
                c10::toString(dtype), worst, bound_of(dtype), good ? "ok" : "FAILED",
                left ? ", saved state left after W" : "");
  }

  at::Device device_;
  int failures_ = 0;
};

int check_all(at::Device device) {
  using namespace braid::layers;
  Checker checker(device);
  const std::vector<at::Tensor> inputs = {normal({2, 16, 64}, 1), normal({2, 16, 64}, 2)};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    RmsNorm norm({.name = "norm", .hidden = 64});
    checker.check(
        "RMSNorm", dtype, norm,
        [](const auto& x, const auto& w) { return reference::rms_norm(x, w[0], 1e-6); }, inputs);
    for (const int64_t key_value_heads : {4, 2}) {
      braid::kernels::RopeTable rope = braid::kernels::rope_table({.max_positions = 16, .head_dim = 16});
      rope = {rope.cos_Sd.to(device), rope.sin_Sd.to(device)};
      Attention attention({.name = "layer",
                           .hidden = 64,
                           .heads = 4,
                           .key_value_heads = key_value_heads,
                           .head_dim = 16,
                           .rope = rope});
      const reference::AttentionShape shape = {
          .heads = 4, .key_value_heads = key_value_heads, .head_dim = 16};
      checker.check(
          key_value_heads == 4 ? "attention" : "attention, grouped queries", dtype, attention,
          [&](const auto& x, const auto& w) { return reference::attention(x, w, shape); }, inputs);
    }
    Mlp mlp({.name = "layer", .hidden = 64, .intermediate = 176});
    checker.check(
        "MLP (SwiGLU)", dtype, mlp, [](const auto& x, const auto& w) { return reference::mlp(x, w, 1e-6); },
        inputs);
    Embedding embedding({.vocabulary = 31, .hidden = 64});
    const at::Tensor tokens = at::arange(32, at::kLong).remainder(31).view({2, 16});
    checker.check("embedding", dtype, embedding,
                  [](const auto& x, const auto& w) { return at::embedding(w[0], x); },
                  {tokens, tokens.flip(1).contiguous()});
    checker.check_head(dtype);
  }
  std::printf("%d failures on %s\n", checker.failures(), device.str().c_str());
  return checker.failures() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const at::Device device(argc > 1 ? argv[1] : "cpu");
    if (device.is_cuda())
      braid::tensor::memory_stats(at::Device(device.type(), 0));  // reports an error if there is none
    return check_all(device);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gradient_check: %s\n", error.what());
    return 2;
  }
}
