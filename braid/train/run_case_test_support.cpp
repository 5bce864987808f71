#include "braid/train/run_case_test_support.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/checkpoint/hf_directory.h"
#include "braid/comm/testing.h"
#include "braid/schedule/generators/generate.h"
#include "braid/tensor/memory.h"

namespace braid::train {

std::ostream& operator<<(std::ostream& out, const RunCase& c) {
  return out << "pp " << c.pp << ", " << c.mode << ", m " << c.microbatches
             << (c.bf16 ? ", bf16" : ", float32") << (c.tied ? ", tied" : "")
             << (c.overlap ? ", early receives" : "") << ", chunks " << c.chunks << ", mp " << c.mp
             << (c.sequence_parallel ? ", sequence parallel" : "")
             << (c.recompute.empty() ? "" : ", recomputes " + c.recompute)
             << (c.early_weight_gradients ? ", early gradients" : "");
}

// Nine layers do not divide by 2, 4 or 8: the cuts are uneven.
config::ModelConfig tiny_model(bool tied) {
  return {.vocab_size = 97,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 9,
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
  options.virtual_pp_degree = c.chunks;
  options.schedule_times = "1,1.2,0.8,0.05";
  options.enable_send_recv_overlap = c.overlap;
  options.bf16 = c.bf16;
  options.segment_broadcast_mb = c.segment_broadcast_mb;
  options.segment_anchors = c.segment_anchors;
  options.tensor_parallel_degree = c.mp;
  options.sequence_parallel = c.sequence_parallel;
  options.recompute = !c.recompute.empty();
  if (options.recompute) options.recompute_granularity = c.recompute;
  options.no_recompute_layers = c.no_recompute_layers;
  options.early_weight_gradients = c.early_weight_gradients;
  options.schedule_memory_limit = c.memory_limit;
  options.learning_rate = 1e-2;
  options.weight_decay = 0.1;
  options.max_grad_norm = c.max_grad_norm;
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

RunResult run_case(const RunCase& c) {
  const ScratchDirectory scratch;
  RunResult result;
  std::mutex mutex;
  comm::run_ranks(c.pp * c.mp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    at::set_num_threads(1);
    const tensor::ArenaScope memory_of_this_rank;
    std::vector<std::string> lines;
    const PretrainSummary summary = pretrain(
        {.options = config::run_options(options_of(c, scratch.path())),
         .model = tiny_model(c.tied),
         .world = world,
         .store = store,
         .reporter = {
             .line = [&](const std::string& line) { lines.push_back(line); },
             .entry = [&](const report::LogEntry& entry) { lines.push_back(report::full_line(entry)); }}});
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

int expect_same_bits_for_every_schedule(int64_t microbatches, bool bf16) {
  const RunResult expected =
      run_case({.pp = 1, .mode = "FThenB", .microbatches = microbatches, .bf16 = bf16});
  EXPECT_EQ(expected.summary.losses.size(), 4u);
  EXPECT_NE(expected.summary.losses.front(), expected.summary.losses.back());
  int runs = 0;
  for (const int pp : {1, 2, 4}) {
    for (const int32_t chunks : {1, 2}) {
      for (const schedule::Mode& mode : schedule::modes()) {
        try {
          schedule::generate(
              mode.name,
              {.ranks = pp, .chunks_per_rank = chunks, .microbatches = static_cast<int32_t>(microbatches)});
        } catch (const ConfigError&) {
          continue;  // the mode does not support this shape; its own tests say which it supports
        }
        ++runs;
        const RunCase c = {.pp = pp,
                           .mode = std::string(mode.name),
                           .microbatches = microbatches,
                           .bf16 = bf16,
                           .overlap = runs % 2 == 0,
                           .chunks = chunks};
        SCOPED_TRACE(::testing::PrintToString(c));
        expect_same_bits(run_case(c), expected);
      }
    }
  }
  return runs;
}

}  // namespace braid::train
