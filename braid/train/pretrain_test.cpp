// The promise of the whole program: the same losses, gradient norms and weights, bit for bit, however the
// model is cut and scheduled.
#include "braid/train/pretrain.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/checkpoint/hf_directory.h"
#include "braid/comm/testing.h"
#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"

namespace braid::train {
namespace {

class SameBits : public ::testing::TestWithParam<std::tuple<int64_t, bool>> {
 protected:
  SameBits() { tensor::install_cpu_allocator(); }
};

TEST_P(SameBits, ForEveryCutAndSchedule) {
  const auto [microbatches, bf16] = GetParam();
  EXPECT_GE(expect_same_bits_for_every_schedule(microbatches, bf16), 3 * 10);
}

INSTANTIATE_TEST_SUITE_P(Microbatches, SameBits,
                         ::testing::Combine(::testing::Values<int64_t>(1, 8), ::testing::Bool()));

TEST(TiedEmbeddings, SameBitsForEveryCut) {
  tensor::install_cpu_allocator();
  for (const bool bf16 : {false, true}) {
    const RunResult expected = run_case({.pp = 1, .microbatches = 3, .bf16 = bf16, .tied = true});
    EXPECT_FALSE(expected.weights.contains("lm_head.weight"));
    for (const int pp : {2, 4}) {
      const RunCase c = {.pp = pp, .microbatches = 3, .bf16 = bf16, .tied = true};
      SCOPED_TRACE(::testing::PrintToString(c));
      expect_same_bits(run_case(c), expected);
    }
  }
}

TEST(Pretrain, MetricsHaveOneLineAStepAndAnEvaluationAndMemoryOfEveryRank) {
  tensor::install_cpu_allocator();
  const RunResult result = run_case({.pp = 2});
  std::vector<std::string> types;
  for (const auto& line : result.metrics) types.push_back(line["type"]);
  EXPECT_THAT(types, ::testing::ElementsAre("train", "train", "eval", "train", "train", "eval"));
  for (const auto& line : result.metrics) {
    if (line["type"] != "train") continue;
    EXPECT_EQ(line["tokens"], 2 * 2 * 12);
    ASSERT_EQ(line["memory"].size(), 2u);
    for (const auto& rank : line["memory"]) {
      EXPECT_GT(rank["max_allocated_bytes"], 0);
      EXPECT_GE(rank["reserved_bytes"], rank["allocated_bytes"]);
    }
  }
  EXPECT_EQ(std::ranges::count_if(result.lines, [](const auto& line) { return line.starts_with("loss: "); }),
            2);
}

TEST(Pretrain, LossFallsOnTextItSeesAgain) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  config::PretrainOptions options = options_of({.microbatches = 1}, scratch.path());
  options.max_steps = 60;
  options.do_eval = false;
  options.skip_export = true;
  config::ModelConfig model = tiny_model(false);
  model.vocab_size = 3;  // random tokens of a small vocabulary: the best a model can do is log(3)
  comm::run_ranks(1, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const PretrainSummary summary =
        pretrain({.options = options, .model = model, .world = world, .store = store, .reporter = {}});
    EXPECT_LT(summary.losses.back(), summary.losses.front());
    EXPECT_NEAR(summary.losses.back(), std::log(3.0), 0.15);
  });
}

TEST(Pretrain, ASignalOnOneRankStopsAllAfterTheSameStep) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  comm::run_ranks(2, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    int asked = 0;
    const PretrainSummary summary =
        pretrain({.options = options_of({.pp = 2}, scratch.path()),
                  .model = tiny_model(false),
                  .world = world,
                  .store = store,
                  .reporter = {},
                  .stop_requested = [&] { return world.rank == 1 && ++asked == 2; }});
    EXPECT_TRUE(summary.stopped);
    EXPECT_EQ(summary.steps, 2);
  });
  EXPECT_NO_THROW(checkpoint::HfWeights(scratch.path() / "hf")) << "what was learnt is not lost";
}

TEST(Pretrain, SegmentsDoNotShowInTheNumbers) {
  tensor::install_cpu_allocator();
  const RunResult expected = run_case({.pp = 2, .tied = true});
  RunCase tiny = {.pp = 2, .tied = true};
  tiny.segment_broadcast_mb = 0.001;
  expect_same_bits(run_case(tiny), expected);
  RunCase anchored = {.pp = 2, .tied = true};
  anchored.segment_anchors = "model.layers.1.mlp lm_head";
  expect_same_bits(run_case(anchored), expected);
}

TEST(Pretrain, AnAnchorThatIsNoLayerIsRejected) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  config::PretrainOptions options = options_of({}, scratch.path());
  options.segment_anchors = "model.layers.9.mlp";  // the model has nine layers, counted from 0
  const auto messages =
      comm::run_failing_ranks(1, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        pretrain(
            {.options = options, .model = tiny_model(false), .world = world, .store = store, .reporter = {}});
      });
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0], ::testing::HasSubstr("the model has no layer model.layers.9.mlp"));
}

// Without clipping no update waits for the norm, and a step's outcome comes with the next one: the same
// numbers, in the same order, every step told once.
TEST(Pretrain, WithoutClippingTheSameBitsForEveryCut) {
  tensor::install_cpu_allocator();
  for (const bool tied : {false, true}) {
    const RunResult expected = run_case({.pp = 1, .microbatches = 6, .tied = tied, .max_grad_norm = 0});
    std::vector<int64_t> steps;
    for (const auto& line : expected.metrics) steps.push_back(line["global_step"]);
    EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 2, 3, 4, 4)) << "an evaluation after steps 2 and 4";
    const RunResult clipped = run_case({.pp = 1, .microbatches = 6, .tied = tied});
    EXPECT_NE(clipped.summary.losses, expected.summary.losses) << "0.5 clips nothing here";
    for (const char* mode : {"1F1B", "ZBH2", "VPP"}) {
      const RunCase c = {.pp = 2,
                         .mode = mode,
                         .microbatches = 6,
                         .tied = tied,
                         .chunks = std::string(mode) == "VPP" ? 2 : 1,
                         .max_grad_norm = 0};
      SCOPED_TRACE(::testing::PrintToString(c));
      expect_same_bits(run_case(c), expected);
    }
  }
}

TEST(Pretrain, WithoutClippingASignalStopsAllAStepLater) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  comm::run_ranks(2, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    int asked = 0;
    config::PretrainOptions options = options_of({.pp = 2, .max_grad_norm = 0}, scratch.path());
    options.max_steps = 6;
    const PretrainSummary summary =
        pretrain({.options = options,
                  .model = tiny_model(false),
                  .world = world,
                  .store = store,
                  .reporter = {},
                  .stop_requested = [&] { return world.rank == 1 && ++asked == 3; }});
    EXPECT_TRUE(summary.stopped);
    EXPECT_EQ(summary.steps, 4);
    EXPECT_EQ(summary.losses.size(), 4u);
  });
}

TEST(Pretrain, ADivergedRunEndsWithAdviceOnEveryRank) {
  tensor::install_cpu_allocator();
  for (const double max_grad_norm : {0.5, 0.0}) {
    const ScratchDirectory scratch;
    config::PretrainOptions options = options_of({.pp = 2, .max_grad_norm = max_grad_norm}, scratch.path());
    options.learning_rate = 1e30;
    options.warmup_steps = 0;
    const auto messages = comm::run_failing_ranks(2, [&](const comm::World& world,
                                                         const c10::intrusive_ptr<c10d::Store>& store) {
      pretrain(
          {.options = options, .model = tiny_model(false), .world = world, .store = store, .reporter = {}});
    });
    for (const auto& message : messages) {
      ASSERT_TRUE(message.has_value());
      EXPECT_THAT(*message, ::testing::HasSubstr("the training diverged; lower --learning_rate"));
    }
  }
}

TEST(Pretrain, ContinuingFromAnExportStartsWhereItEnded) {
  tensor::install_cpu_allocator();
  const ScratchDirectory first, second;
  double last_eval = 0;
  comm::run_ranks(2, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const auto summary = pretrain({.options = options_of({.pp = 2}, first.path()),
                                   .model = tiny_model(false),
                                   .world = world,
                                   .store = store,
                                   .reporter = {}});
    if (world.rank == 0) last_eval = summary.eval_losses.back();
  });
  config::PretrainOptions options = options_of({.pp = 1}, second.path());
  options.do_train = false;
  options.continue_training = true;
  options.model_name_or_path = (first.path() / "hf").string();
  comm::run_ranks(1, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const auto summary = pretrain(
        {.options = options, .model = tiny_model(false), .world = world, .store = store, .reporter = {}});
    EXPECT_EQ(summary.eval_losses, std::vector<double>{last_eval});
  });
}

}  // namespace
}  // namespace braid::train
