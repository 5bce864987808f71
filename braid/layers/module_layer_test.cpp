// torch::nn::Module through the adapter; in a file of its own because torch/nn's headers compile slowly.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "braid/layers/autograd_layer.h"
#include "braid/layers/testing.h"

namespace braid::layers {
namespace {

TEST(ModuleLayer, TrainsATorchModuleInPlace) {
  torch::nn::Linear module(6, 6);
  const std::unique_ptr<Layer> layer = make_module_layer(module.ptr(), "block.");
  std::vector<tensor::Parameter*> parameters;
  layer->append_parameters(parameters);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0]->name, "block.weight");
  EXPECT_FALSE(parameters[1]->decays) << "a bias does not decay";
  testing::allocate(*layer, at::kFloat);
  testing::expect_like_autograd(
      *layer, [](const auto& x, const auto& w) { return at::linear(x, w[0], w[1]); },
      {at::randn({2, 3, 6}), at::randn({2, 3, 6})}, testing::Order::kAllForwardsFirst, 0x1p-24 * 64);
  parameters[0]->value.zero_();
  EXPECT_EQ(module->weight.abs().sum().item<float>(), 0) << "the parameter is the module's own";
}

}  // namespace
}  // namespace braid::layers
