#include "braid/train/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/layers/autograd_layer.h"

namespace braid::train {
namespace {

using layers::LayerSpec;

/// A layer with weights of these names and sizes, which a plan never runs.
LayerSpec layer_with(const std::string& name, std::vector<std::vector<tensor::TensorSlice>> weights,
                     bool is_loss = false) {
  class Weights final : public layers::Layer {
   public:
    explicit Weights(const std::vector<std::vector<tensor::TensorSlice>>& weights) {
      for (const auto& slices : weights) parameters_.push_back(tensor::declare_parameter(slices));
    }
    std::unique_ptr<layers::Saved> make_saved() const override { return nullptr; }
    at::Tensor forward(const at::Tensor& x, layers::Saved*) override { return x; }
    at::Tensor backward_input(const at::Tensor& dy, layers::Saved&) override { return dy; }
    void backward_weight(layers::Saved&) override {}
    void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
      for (tensor::Parameter& parameter : parameters_) parameters.push_back(&parameter);
    }

   private:
    std::vector<tensor::Parameter> parameters_;
  };
  LayerSpec spec = {.name = name, .kind = name};
  if (is_loss) {
    spec.make = [](c10::Device) -> std::unique_ptr<layers::Layer> {
      return std::make_unique<layers::AutogradLossLayer>(
          [](const at::Tensor& x, const at::Tensor&) { return x; }, std::vector<layers::NamedLeaf>{});
    };
  } else {
    spec.make = [weights = std::move(weights)](c10::Device) { return std::make_unique<Weights>(weights); };
  }
  return spec;
}

RunPlan plan_of(std::vector<LayerSpec> layers, int32_t pp = 1) {
  layers.push_back(layer_with("loss", {}, true));
  return make_run_plan({.mesh = {.pp = pp}}, {}, {.layers = std::move(layers), .hidden = 4});
}

std::string rejection_of(std::vector<LayerSpec> layers) {
  try {
    plan_of(std::move(layers));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

tensor::TensorSlice matrix(const std::string& name) { return tensor::whole_tensor(name, {4, 4}); }

TEST(RunPlan, ATieIsFoundByTheNameAndCountsWithItsFirstStage) {
  const RunPlan plan = plan_of({layer_with("a", {{matrix("w")}, {matrix("x")}}),
                                layer_with("b", {{matrix("y")}}), layer_with("c", {{matrix("w")}})},
                               3);
  ASSERT_TRUE(plan.tied.has_value());
  EXPECT_EQ(plan.tied->first_rank, 0);
  EXPECT_EQ(plan.tied->last_rank, 2);
  EXPECT_EQ(plan.tied->numel(), 16);
  EXPECT_EQ(plan.stage_norms, (std::vector<int64_t>{2, 1, 0}));
  EXPECT_FALSE(
      plan_of({layer_with("a", {{matrix("w")}}), layer_with("b", {{matrix("x")}})}).tied.has_value());
}

TEST(RunPlan, WeightsSharedInAnyOtherWayAreRejected) {
  const auto says = ::testing::HasSubstr("is used by several layers");
  EXPECT_THAT(rejection_of({layer_with("a", {{matrix("w")}}), layer_with("b", {{matrix("w")}}),
                            layer_with("c", {{matrix("w")}})}),
              says)
      << "three layers";
  EXPECT_THAT(rejection_of({layer_with("a", {{matrix("w")}, {matrix("x")}}),
                            layer_with("b", {{matrix("w")}, {matrix("x")}})}),
              says)
      << "two weights";
  EXPECT_THAT(rejection_of({layer_with("a", {{matrix("q"), matrix("k")}}), layer_with("b", {{matrix("q")}})}),
              says)
      << "a part of a fused parameter";
  EXPECT_THAT(rejection_of(
                  {layer_with("a", {{matrix("w")}}), layer_with("b", {{tensor::whole_tensor("w", {4, 2})}})}),
              says)
      << "another shape";
}

TEST(RunPlan, ModelsThatCannotBeCutAreRejected) {
  EXPECT_THAT(rejection_of({}), ::testing::HasSubstr("a model needs a layer and a loss, got 1"));
  EXPECT_THAT(rejection_of({layer_with("early", {}, true), layer_with("b", {{matrix("x")}})}),
              ::testing::HasSubstr("layer early is a loss, but layers follow it"));
}

}  // namespace
}  // namespace braid::train
