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
    spec.make = [](const layers::Placement&) -> std::unique_ptr<layers::Layer> {
      return std::make_unique<layers::AutogradLossLayer>(
          [](const at::Tensor& x, const at::Tensor&) { return x; }, std::vector<layers::NamedLeaf>{});
    };
  } else {
    spec.make = [weights = std::move(weights)](const layers::Placement&) {
      return std::make_unique<Weights>(weights);
    };
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
  EXPECT_EQ(plan.tied->whole_numel(), 16);
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

// What is given by hand is checked before anything is planned with it.
TEST(RunPlan, OptionsOutOfRangeAreRejected) {
  const auto rejection = [](const config::Strategy& strategy, const config::TrainingOptions& training = {},
                            int64_t hidden = 4) {
    try {
      make_run_plan(strategy, training,
                    {.layers = {layer_with("a", {{matrix("w")}}), layer_with("b", {{matrix("x")}}),
                                layer_with("loss", {}, true)},
                     .hidden = hidden});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(rejection({}), "accepted");
  EXPECT_THAT(rejection({.mesh = {.mp = 2}}), HasSubstr("layer a cannot be cut across 2 ranks"));
  EXPECT_THAT(rejection({.mesh = {.sharding = 2}, .sharding_stage = 4}),
              HasSubstr("Strategy::sharding_stage must be >= 0 and <= 3, got 4"));
  EXPECT_THAT(rejection({.recompute = config::Recomputation::kFull}),
              HasSubstr("recomputation of full: the model has no decoder layers"));
  EXPECT_THAT(rejection({.segment_anchors = {"z"}}), HasSubstr("the model has no layer z"));
  EXPECT_THAT(rejection({.mesh = {.pp = 3}}), HasSubstr("at most 2 stages, fewer than the 3 of 3 ranks"));
  EXPECT_THAT(rejection({.durations = schedule::Durations{.stages = {{.forward = schedule::Seconds(-1)}}}}),
              HasSubstr("-1"));
  EXPECT_THAT(rejection({.schedule = schedule::Schedule{.name = "mine", .shape = {.ranks = 2}}}),
              HasSubstr("the given schedule mine is for 2 ranks"));
  EXPECT_THAT(rejection({}, {}, 0), HasSubstr("ModelSpec::hidden"));
  EXPECT_THAT(rejection({}, {.microbatch_sequences = 0}),
              HasSubstr("microbatch_sequences must be >= 1, got 0"));
  EXPECT_THAT(rejection({}, {.max_grad_norm = -1}), HasSubstr("max_grad_norm is out of range: -1"));
  EXPECT_THAT(rejection({}, {.adamw = {.beta2 = 1}}), HasSubstr("adamw.beta2 is out of range: 1"));
  EXPECT_THAT(rejection({}, {.learning_rate = {.decay_steps = 0}}), HasSubstr("decay_steps must be >= 1"));
}

}  // namespace
}  // namespace braid::train
