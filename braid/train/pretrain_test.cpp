// The promise of the whole program: the same losses, gradient norms and weights, bit for bit, however the
// model is cut and scheduled.
#include "braid/train/pretrain.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/checkpoint/hf_directory.h"
#include "braid/comm/testing.h"
#include "braid/tensor/memory.h"
#include "braid/train/scratch_directory.h"

namespace braid::train {
namespace {

struct RunCase {
  int pp = 1;
  std::string mode = "1F1B";
  int64_t microbatches = 2;
  bool bf16 = false;
  bool tied = false;
  bool overlap = false;
};

std::ostream& operator<<(std::ostream& out, const RunCase& c) {
  return out << "pp " << c.pp << ", " << c.mode << ", m " << c.microbatches
             << (c.bf16 ? ", bf16" : ", float32") << (c.tied ? ", tied" : "")
             << (c.overlap ? ", early receives" : "");
}

// Five layers do not divide by 2 or 4: the cuts are uneven.
config::ModelConfig tiny_model(bool tied) {
  return {.vocab_size = 97,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 5,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .max_position_embeddings = 16,
          .tie_word_embeddings = tied};
}

config::PretrainOptions options_of(const RunCase& c, const std::filesystem::path& output) {
  config::PretrainOptions options;
  options.synthetic_data = true;
  options.max_seq_length = 12;
  options.per_device_train_batch_size = 2;
  options.per_device_eval_batch_size = 3;
  options.gradient_accumulation_steps = c.microbatches;
  options.pipeline_parallel_degree = c.pp;
  options.pipeline_schedule_mode = c.mode;
  options.enable_send_recv_overlap = c.overlap;
  options.bf16 = c.bf16;
  options.learning_rate = 1e-2;
  options.weight_decay = 0.1;
  options.max_grad_norm = 0.5;
  options.warmup_steps = 2;
  options.max_steps = 4;
  options.logging_steps = 2;
  options.eval_steps = 2;
  options.eval_iters = 3;
  options.do_train = true;
  options.do_eval = true;
  options.output_dir = output.string();
  options.dist_timeout = std::chrono::seconds(60);
  return options;
}

struct RunResult {
  PretrainSummary summary;                    // rank 0's
  std::map<std::string, at::Tensor> weights;  // as exported
  std::vector<nlohmann::json> metrics;
  std::vector<std::string> lines;  // rank 0's log
};

RunResult run_case(const RunCase& c) {
  const ScratchDirectory scratch;
  RunResult result;
  std::mutex mutex;
  comm::run_ranks(c.pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    at::set_num_threads(1);
    const tensor::ArenaScope memory_of_this_rank;
    std::vector<std::string> lines;
    const PretrainSummary summary =
        pretrain({.options = options_of(c, scratch.path()),
                  .model = tiny_model(c.tied),
                  .world = world,
                  .store = store,
                  .reporter = {.line = [&](const std::string& line) { lines.push_back(line); }}});
    const std::lock_guard lock(mutex);
    if (world.rank == 0) {
      result.summary = summary;
      result.lines = lines;
    } else if (!result.summary.losses.empty()) {
      EXPECT_EQ(summary.losses, result.summary.losses) << "every rank knows the same loss";
    }
  });
  const checkpoint::HfWeights weights(scratch.path() / "hf");
  for (const std::string& name : weights.names()) {
    at::Tensor value = at::empty(weights.shape(name), c.bf16 ? at::kBFloat16 : at::kFloat);
    weights.read_into(name, value);
    result.weights.emplace(name, value);
  }
  std::ifstream metrics(scratch.path() / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) result.metrics.push_back(nlohmann::json::parse(line));
  return result;
}

void expect_same_bits(const RunResult& got, const RunResult& expected) {
  EXPECT_EQ(got.summary.losses, expected.summary.losses);
  EXPECT_EQ(got.summary.grad_norms, expected.summary.grad_norms);
  EXPECT_EQ(got.summary.eval_losses, expected.summary.eval_losses);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (const auto& [name, value] : expected.weights) {
    ASSERT_TRUE(got.weights.contains(name)) << name;
    EXPECT_TRUE(at::equal(got.weights.at(name), value)) << name;
  }
  ASSERT_EQ(got.metrics.size(), expected.metrics.size());
  for (size_t i = 0; i < expected.metrics.size(); ++i) {
    for (const char* key : {"loss", "grad_norm", "learning_rate", "eval_loss"}) {
      EXPECT_EQ(got.metrics[i].value(key, 0.0), expected.metrics[i].value(key, 0.0))
          << key << " of line " << i;
    }
  }
}

class SameBits : public ::testing::TestWithParam<std::tuple<int64_t, bool>> {
 protected:
  SameBits() { tensor::install_cpu_allocator(); }
};

TEST_P(SameBits, ForEveryCutAndSchedule) {
  const auto [microbatches, bf16] = GetParam();
  const RunResult expected =
      run_case({.pp = 1, .mode = "FThenB", .microbatches = microbatches, .bf16 = bf16});
  ASSERT_EQ(expected.summary.losses.size(), 4u);
  EXPECT_NE(expected.summary.losses.front(), expected.summary.losses.back());
  for (const int pp : {1, 2, 4}) {
    for (const char* mode : {"FThenB", "1F1B"}) {
      for (const bool overlap : {false, true}) {
        const RunCase c = {
            .pp = pp, .mode = mode, .microbatches = microbatches, .bf16 = bf16, .overlap = overlap};
        SCOPED_TRACE(::testing::PrintToString(c));
        expect_same_bits(run_case(c), expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Microbatches, SameBits,
                         ::testing::Combine(::testing::Values<int64_t>(1, 2, 3, 8), ::testing::Bool()));

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
    const PretrainSummary summary = pretrain({.options = options_of({.pp = 2}, scratch.path()),
                                              .model = tiny_model(false),
                                              .world = world,
                                              .store = store,
                                              .reporter = {},
                                              .stop_asked = [&] { return world.rank == 1 && ++asked == 2; }});
    EXPECT_TRUE(summary.stopped);
    EXPECT_EQ(summary.steps, 2);
  });
  EXPECT_NO_THROW(checkpoint::HfWeights(scratch.path() / "hf")) << "what was learnt is not lost";
}

TEST(Pretrain, ADivergedRunEndsWithAdviceOnEveryRank) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  config::PretrainOptions options = options_of({.pp = 2}, scratch.path());
  options.learning_rate = 1e30;
  options.warmup_steps = 0;
  const auto messages =
      comm::run_failing_ranks(2, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        pretrain(
            {.options = options, .model = tiny_model(false), .world = world, .store = store, .reporter = {}});
      });
  for (const auto& message : messages) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, ::testing::HasSubstr("the training diverged; lower --learning_rate"));
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
