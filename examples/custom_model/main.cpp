// A ZBH1 schedule for 2 ranks, simulated, and a torch::nn module run as its three actions F, B and W.
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <exception>
#include <memory>

#include "braid/layers/autograd_layer.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"
#include "braid/tensor/segment.h"

namespace {

void run() {
  using namespace braid;
  const auto compute = schedule::generate("ZBH1", {.ranks = 2, .chunks_per_rank = 1, .microbatches = 8});
  const auto whole = schedule::lower(compute, {});
  std::printf("%s", schedule::to_string(compute).c_str());
  std::printf("bubble %.1f%%\n", 100 * schedule::simulate(whole, {}).bubble_rate);

  const auto layer = layers::make_module_layer(std::make_shared<torch::nn::LinearImpl>(4, 3), "linear.");
  const std::vector<tensor::Parameter*> parameters = layers::parameters_of(*layer);
  const std::vector<tensor::LayerParameters> all = {{.layer = "linear", .parameters = parameters}};
  const auto segments = tensor::allocate_segments(tensor::lay_out_segments(all, {}, 4), at::kFloat);
  const auto saved = layer->make_saved();
  const at::Tensor y = layer->forward(at::ones({2, 5, 4}), saved.get());
  const at::Tensor dx = layer->backward_input(at::ones_like(y), *saved);
  layer->backward_weight(*saved);
  std::printf("y [%ld, %ld, %ld], dx [%ld, %ld, %ld]\n", y.size(0), y.size(1), y.size(2), dx.size(0),
              dx.size(1), dx.size(2));
  for (const tensor::Parameter* parameter : parameters)
    std::printf("%s: gradient sum %g\n", parameter->name.c_str(), parameter->main_grad.sum().item<double>());
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_model: %s\n", error.what());
    return 1;
  }
  return 0;
}
