// Recomputation from the options to the trained model: the bits of training without it, and what is said
// where it cannot be carried out.
#include "braid/train/recomputation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/model/llama.h"
#include "braid/tensor/memory.h"
#include "braid/train/plan_text.h"
#include "braid/train/run_case_test_support.h"
#include "braid/train/run_plan.h"

namespace braid::train {
namespace {

using config::Recomputation;
using ::testing::Contains;
using ::testing::HasSubstr;

// Whatever is recomputed, with fused and split backwards, one chunk and several, alone and with mp. Every
// schedule: recomputation_slow_test.cpp.
TEST(Recomputation, SameBitsAsWithout) {
  tensor::install_cpu_allocator();
  for (const int mp : {1, 2}) {
    RunCase base = {.pp = 1, .mode = "FThenB", .microbatches = 4, .bf16 = mp == 2, .mp = mp};
    base.sequence_parallel = mp == 2;
    const RunResult expected = run_case(base);
    for (const char* recompute : {"full", "full_attn", "core_attn"}) {
      RunCase c = base;
      c.pp = 2;
      c.mode = mp == 2 ? "ZBH1" : recompute == std::string("full_attn") ? "VPP" : "ZBVPP";
      c.chunks = mp == 2 ? 1 : 2;
      c.recompute = recompute;
      if (mp == 2) c.no_recompute_layers = {0, 3, 8};
      c.early_weight_gradients = recompute != std::string("core_attn");
      SCOPED_TRACE(::testing::PrintToString(c));
      expect_same_bits(run_case(c), expected);
    }
  }
}

RunPlan plan_of(config::Strategy strategy, layers::ModelSpec model = model::llama_spec(tiny_model(false))) {
  if (!strategy.durations) strategy.durations = schedule::Durations{};
  return make_run_plan(strategy, {.microbatch_sequences = 2, .sequence_tokens = 12, .microbatches = 4},
                       model);
}

std::string rejection_of(const config::Strategy& strategy,
                         layers::ModelSpec model = model::llama_spec(tiny_model(false))) {
  try {
    plan_of(strategy, std::move(model));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Recomputation, ThePlanSaysWhatIsRecomputed) {
  const RunPlan plan = plan_of({.recompute = Recomputation::kFull, .no_recompute_layers = {0, 3, 4}});
  EXPECT_THAT(plan_text(plan),
              Contains("recomputed in the backward pass: full: decoder layers 1, 2, 5 to 8"));
  EXPECT_EQ(plan.model.layers.size(), 2u + 2 * 3 + 6);
  EXPECT_EQ(plan.model.layers[3].name, "model.layers.1");
  EXPECT_THAT(plan_json(plan), HasSubstr(R"("recompute":["none","full","full","none","none","full")"));
  EXPECT_THAT(plan_text(plan_of({.recompute = Recomputation::kCoreAttention,
                                 .no_recompute_layers = {0, 1, 2, 3, 4, 5, 6, 7}})),
              Contains("recomputed in the backward pass: core_attn: decoder layer 8"));
}

TEST(Recomputation, ThePlanSaysWhereEarlyWeightGradientsHaveNoEffect) {
  const char* line = "early_weight_gradients has no effect: 1F1B does not split the backward pass";
  EXPECT_THAT(plan_text(plan_of({.early_weight_gradients = true})), Contains(line));
  EXPECT_THAT(plan_text(plan_of({.early_weight_gradients = true, .schedule_mode = "ZBH1"})),
              ::testing::Not(Contains(HasSubstr("no effect"))));
}

TEST(Recomputation, KeepsLessAndTakesLonger) {
  std::vector<int64_t> kept;
  std::vector<double> times;
  for (const Recomputation recompute : {Recomputation::kNone, Recomputation::kCoreAttention,
                                        Recomputation::kFullAttention, Recomputation::kFull}) {
    config::Strategy strategy = {.mesh = {.pp = 2}, .recompute = recompute};
    const RunPlan plan =
        make_run_plan(strategy, {.microbatch_sequences = 2, .sequence_tokens = 12, .microbatches = 4},
                      model::llama_spec(tiny_model(false)));
    kept.push_back(plan.ranks.front().memory.kept_activations);
    times.push_back(schedule::simulate(plan.step, plan.durations).step_time.count());
  }
  for (size_t i = 1; i < kept.size(); ++i) {
    EXPECT_LT(kept[i], kept[i - 1]) << i;
    EXPECT_GT(times[i], times[i - 1]) << i;
  }
  // All products of a decoder layer but the last again: B is not quite twice as long.
  EXPECT_LT(times.back(), times.front() * 4 / 3);
}

TEST(Recomputation, LayersThatTheModelDoesNotHaveAreRejected) {
  EXPECT_THAT(
      rejection_of({.recompute = Recomputation::kFull, .no_recompute_layers = {1, 9}}),
      HasSubstr("no_recompute_layers names layer 9, but the model has 9 decoder layers, counted from 0"));
  EXPECT_THAT(rejection_of({.no_recompute_layers = {1}}), HasSubstr("but recompute is kNone: no layer is"));
}

TEST(Recomputation, AnchorsWithinALayerThatIsRecomputedWholeAreRejected) {
  config::Strategy strategy = {.recompute = Recomputation::kFull,
                               .no_recompute_layers = {2},
                               .segment_anchors = {"model.layers.1.self_attn", "model.layers.2.mlp"}};
  EXPECT_THAT(plan_of(strategy).strategy.segment_anchors,
              ::testing::ElementsAre("model.layers.1", "model.layers.2.mlp"));
  strategy.segment_anchors.emplace_back("model.layers.3.mlp");
  EXPECT_THAT(rejection_of(strategy),
              HasSubstr("segment anchor model.layers.3.mlp lies within model.layers.3, which is recomputed"));
}

// A strategy that cannot be carried out is rejected rather than ignored.
TEST(Recomputation, ModelsOfOnesOwnMustSayWhatTheirDecoderLayersAre) {
  layers::ModelSpec model = model::llama_spec(tiny_model(false));
  for (layers::LayerSpec& layer : model.layers) layer.is_attention = false;
  EXPECT_EQ(rejection_of({.recompute = Recomputation::kFull}, model), "accepted");
  EXPECT_THAT(rejection_of({.recompute = Recomputation::kFullAttention}, model),
              HasSubstr("recomputation of full_attn: decoder layer model.layers.0 has no attention"));
  model = model::llama_spec(tiny_model(false));
  for (layers::LayerSpec& layer : model.layers) layer.saving = nullptr;
  EXPECT_THAT(rejection_of({.recompute = Recomputation::kCoreAttention}, model),
              HasSubstr("layer model.layers.0.self_attn has no such variant"));
  std::swap(model.layers[1].block, model.layers[3].block);
  EXPECT_THAT(
      rejection_of({.recompute = Recomputation::kFull}, model),
      HasSubstr("the parts of decoder layer model.layers.1 (LayerSpec::block) must follow one another"));
  for (layers::LayerSpec& layer : model.layers) layer.block.clear();
  EXPECT_THAT(
      rejection_of({.recompute = Recomputation::kFull}, model),
      HasSubstr("recomputation of full: the model has no decoder layers: name them in LayerSpec::block"));
  model.layers.back().block = "end";
  EXPECT_THAT(rejection_of({.recompute = Recomputation::kFull}, model),
              HasSubstr("layer lm_head ends the model"));
}

}  // namespace
}  // namespace braid::train
