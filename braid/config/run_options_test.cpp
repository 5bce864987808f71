#include "braid/config/run_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/config/options.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generators/generate.h"

namespace braid::config {
namespace {

using ::testing::HasSubstr;

std::string rejection_of(const PretrainOptions& options) {
  try {
    run_options(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// Every option that a run depends on, away from its default.
TEST(RunOptions, EveryOptionArrives) {
  PretrainOptions o;
  o.model_name_or_path = "model";
  o.continue_training = true;
  o.input_dir = "data";
  o.split = "8,1,1";
  o.max_seq_length = 64;
  o.data_seed = 3;
  o.per_device_train_batch_size = 2;
  o.per_device_eval_batch_size = 5;
  o.gradient_accumulation_steps = 6;
  o.learning_rate = 0.5;
  o.min_learning_rate = 0.25;
  o.lr_scheduler_type = "cosine";
  o.warmup_steps = 7;
  o.decay_steps = 90;
  o.weight_decay = 0.125;
  o.adam_beta1 = 0.75;
  o.adam_beta2 = 0.875;
  o.adam_epsilon = 0.0625;
  o.max_grad_norm = 2;
  o.fp16 = true;
  o.scale_loss = 1024;
  o.tensor_parallel_degree = 2;
  o.sequence_parallel = true;
  o.sharding = "stage3 offload";
  o.sharding_reduce = "step";
  o.offload_dir = "slow";
  o.recompute = true;
  o.recompute_granularity = "core_attn";
  o.no_recompute_layers = {1, 5};
  o.early_weight_gradients = true;
  o.data_parallel_degree = 5;
  o.pipeline_parallel_degree = 4;
  o.pipeline_schedule_mode = "VPP";
  o.enable_send_recv_overlap = true;
  o.virtual_pp_degree = 2;
  o.schedule_times = "2,4,6,1";
  o.schedule_mp_exchange = "1,2";
  o.schedule_memory_limit = 1000;
  o.segment_broadcast_mb = 0.5;
  o.segment_anchors = "a  b";
  o.do_train = true;
  o.do_eval = true;
  o.max_steps = 100;
  o.eval_steps = 11;
  o.eval_iters = 12;
  o.seed = 13;
  o.device = "gpu";
  o.dist_timeout = std::chrono::seconds(14);
  o.output_dir = "out";
  o.logging_steps = 15;
  o.profile_steps = "16,17";
  o.skip_export = true;
  schedule::Durations expected_durations = schedule::parse_durations("2,4,6,1", 2);
  schedule::set_exchanges(expected_durations, "1,2", 2);
  const RunOptions expected = {
      .strategy = {.mesh = {.mp = 2, .sharding = 3, .pp = 4, .dp = 5},
                   .sharding_stage = 3,
                   .sharding_reduce = ReduceTiming::kStep,
                   .sequence_parallel = true,
                   .offloads_optimizer = true,
                   .offload_dir = "slow",
                   .recompute = Recomputation::kCoreAttention,
                   .no_recompute_layers = {1, 5},
                   .early_weight_gradients = true,
                   .chunks_per_rank = 2,
                   .schedule_mode = "VPP",
                   .durations = expected_durations,
                   .memory_limit_bytes = 1000,
                   .receives = schedule::ReceivePosting::kEarly,
                   .segment_bytes = int64_t{512} * 1024,
                   .segment_anchors = {"a", "b"}},
      .training = {.microbatch_sequences = 2,
                   .sequence_tokens = 64,
                   .microbatches = 6,
                   .max_steps = 100,
                   .evaluation_sequences = 5,
                   .precision = Precision::kFloat16,
                   .loss_scaling = {.initial = 1024},
                   .learning_rate = {.peak = 0.5,
                                     .floor = 0.25,
                                     .warmup_steps = 7,
                                     .decay_steps = 90,
                                     .decay = Decay::kCosine},
                   .adamw = {.beta1 = 0.75, .beta2 = 0.875, .eps = 0.0625, .weight_decay = 0.125},
                   .max_grad_norm = 2},
      .device = Device::kCuda,
      .timeout = std::chrono::seconds(14),
      .seed = 13,
      .initial_weights = "model",
      .input_dir = "data",
      .split = "8,1,1",
      .data_seed = 3,
      .evaluation_steps = 11,
      .evaluation_microbatches = 12,
      .logging_steps = 15,
      .profiled_steps = {{16, 17}},
      .output_dir = "out",
      .exports_model = false};
  const RunOptions run = run_options(o, 120);
  EXPECT_TRUE(run.strategy == expected.strategy);
  EXPECT_TRUE(run.training == expected.training);
  EXPECT_TRUE(run == expected);
}

TEST(RunOptions, WhatIsOffIsAbsent) {
  PretrainOptions o;
  o.synthetic_data = true;
  o.do_eval = true;
  o.max_steps = 9;
  o.schedule_memory_limit = 1;
  o.profile_steps = "1,2";
  o.offload_dir = "d";
  o.no_recompute_layers = {3};
  o.scale_loss = 2;
  RunOptions run = run_options(o);
  EXPECT_EQ(run.training.max_steps, 0) << "do_train is off";
  EXPECT_FALSE(run.exports_model);
  EXPECT_FALSE(run.profiled_steps.has_value());
  EXPECT_FALSE(run.strategy.memory_limit_bytes.has_value());
  EXPECT_FALSE(run.input_dir.has_value());
  EXPECT_FALSE(run.initial_weights.has_value());
  EXPECT_EQ(run.data_seed, 42) << "the seed of the run";
  EXPECT_EQ(run.evaluation_steps, o.logging_steps);
  EXPECT_TRUE(run.evaluates_small_part_whole) << "eval_iters is not given";
  EXPECT_EQ(run.evaluation_microbatches, 10) << "of a part that is not small";
  EXPECT_EQ(run.strategy, Strategy{}) << "-1: one rank";
  EXPECT_EQ(run.training.loss_scaling, LossScaling{});
  o.do_train = true;
  o.do_eval = false;
  o.lr_scheduler_type = "constant_with_warmup";
  run = run_options(o);
  EXPECT_EQ(run.training.evaluation_sequences, 0);
  EXPECT_EQ(run.evaluation_microbatches, 0);
  EXPECT_FALSE(run.evaluates_small_part_whole);
  EXPECT_EQ(run.training.learning_rate.decay, Decay::kConstant);
  EXPECT_TRUE(run.exports_model);
}

TEST(RunOptions, PrecisionRecomputationAndBuffers) {
  PretrainOptions o;
  o.max_steps = 9;
  EXPECT_EQ(run_options(o).training.precision, Precision::kFloat32);
  o.bf16 = true;
  EXPECT_EQ(run_options(o).training.precision, Precision::kBfloat16);
  EXPECT_EQ(run_options(o).strategy.recompute, Recomputation::kNone);
  o.recompute = true;
  EXPECT_EQ(run_options(o).strategy.recompute, Recomputation::kFull);
  o.recompute_granularity = "full_attn";
  EXPECT_EQ(run_options(o).strategy.recompute, Recomputation::kFullAttention);
  o.recompute_granularity = "auto";
  EXPECT_EQ(run_options(o).strategy.recompute, Recomputation::kNone) << "do_train is off";
  o.do_train = true;
  EXPECT_THAT([&] { run_options(o); },
              ::testing::ThrowsMessage<ConfigError>(
                  "--recompute_granularity auto chooses by --schedule_memory_limit: set it"));
  o.schedule_memory_limit = 1000;
  EXPECT_EQ(run_options(o).strategy.recompute, Recomputation::kAuto);
  o.segment_broadcast_mb = 1e-300;
  EXPECT_EQ(run_options(o).strategy.segment_bytes, 1);
  o.segment_broadcast_mb = 1e300;
  EXPECT_EQ(run_options(o).strategy.segment_bytes, int64_t{1} << 60);
}

TEST(RunOptions, ASchedulesFileIsReadAndMustFit) {
  const ScratchDirectory scratch;
  const std::string path = (scratch.path() / "mine.csv").string();
  const schedule::Schedule schedule =
      schedule::generate("VPP", {.ranks = 2, .chunks_per_rank = 2, .microbatches = 4});
  std::ofstream(path) << schedule::to_csv(schedule);
  PretrainOptions o;
  o.pipeline_parallel_degree = 2;
  o.gradient_accumulation_steps = 4;
  o.pipeline_schedule_mode = "csv:" + path;
  o.schedule_times = "2,4,6";
  const Strategy strategy = run_options(o).strategy;
  ASSERT_TRUE(strategy.schedule.has_value());
  EXPECT_EQ(strategy.schedule->ranks, schedule.ranks);
  EXPECT_EQ(strategy.chunks_per_rank, 2) << "the file's";
  EXPECT_EQ(strategy.durations, schedule::parse_durations("2,4,6", 2));
  o.gradient_accumulation_steps = 1;
  EXPECT_THAT(rejection_of(o),
              HasSubstr("is a schedule of 2 ranks and 4 microbatches, but "
                        "--pipeline_parallel_degree is 2 and --gradient_accumulation_steps 1"));
  o.pipeline_schedule_mode = "csv:" + path + ".absent";
  EXPECT_THAT(rejection_of(o), HasSubstr("--pipeline_schedule_mode csv:" + path + ".absent: "));
}

}  // namespace
}  // namespace braid::config
