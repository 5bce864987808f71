#include "braid/config/run_options.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/mesh_options.h"
#include "braid/config/options.h"
#include "braid/config/pretrain.h"
#include "braid/config/schedule_times.h"
#include "braid/config/text_file.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/workload.h"

namespace braid::config {
namespace {

std::string schedule_text(const std::string& path) {
  try {
    return read_text_file(path);
  } catch (const ConfigError& error) {
    throw ConfigError(cat("--pipeline_schedule_mode csv:", path, ": ", error.what()));
  }
}

schedule::Schedule read_schedule(const PretrainOptions& options, const std::string& path) {
  schedule::Schedule schedule = schedule::from_csv(schedule_text(path), path);
  const schedule::PipelineShape& shape = schedule.shape;
  require<ConfigError>(
      shape.ranks == pipeline_ranks(options) && shape.microbatches == options.gradient_accumulation_steps,
      path, " is a schedule of ", counted(shape.ranks, "rank"), " and ",
      counted(shape.microbatches, "microbatch", "microbatches"), ", but --pipeline_parallel_degree is ",
      pipeline_ranks(options), " and --gradient_accumulation_steps ", options.gradient_accumulation_steps);
  return schedule;
}

Recomputation recomputation_of(const PretrainOptions& options) {
  if (!options.recompute) return Recomputation::kNone;
  if (options.recompute_granularity == "auto") {
    if (!options.do_train && !is_dry_run(options)) return Recomputation::kNone;
    require<ConfigError>(options.schedule_memory_limit.has_value(),
                         "--recompute_granularity auto chooses by --schedule_memory_limit: set it");
    return Recomputation::kAuto;
  }
  if (options.recompute_granularity == "core_attn") return Recomputation::kCoreAttention;
  return options.recompute_granularity == "full_attn" ? Recomputation::kFullAttention : Recomputation::kFull;
}

// What divides the layers' tensors and the optimizer's.
void add_sharding(const PretrainOptions& options, Strategy& strategy) {
  strategy.sharding_stage = sharding_stage(options);
  if (options.sharding_reduce) {
    strategy.sharding_reduce =
        *options.sharding_reduce == "step" ? ReduceTiming::kStep : ReduceTiming::kMicrobatch;
  }
  strategy.sequence_parallel = options.sequence_parallel;
  strategy.offloads_optimizer = offloads_optimizer(options);
  if (strategy.offloads_optimizer) strategy.offload_dir = options.offload_dir.value_or("");
  // Beyond 2^40 MiB nothing is cut any more.
  const double mib = std::min(options.segment_broadcast_mb, static_cast<double>(int64_t{1} << 40));
  strategy.segment_bytes = std::max<int64_t>(1, static_cast<int64_t>(mib * (1 << 20)));
  for (const std::string& anchor : split(options.segment_anchors, ' ')) {
    if (!anchor.empty()) strategy.segment_anchors.push_back(anchor);
  }
}

Strategy strategy_of(const PretrainOptions& options, std::optional<int64_t> world_size) {
  Strategy strategy;
  strategy.mesh = mesh_of(options, world_size);
  add_sharding(options, strategy);
  schedule::PipelineShape shape = {.ranks = strategy.mesh.pp,
                                   .chunks_per_rank = static_cast<int32_t>(pipeline_chunks(options)),
                                   .microbatches = static_cast<int32_t>(options.gradient_accumulation_steps)};
  if (const auto file = schedule_file(options)) {
    strategy.schedule = read_schedule(options, *file);
    shape = strategy.schedule->shape;
  } else {
    strategy.schedule_mode = options.pipeline_schedule_mode;
  }
  strategy.chunks_per_rank = shape.chunks_per_rank;
  require<ConfigError>(options.schedule_times || !options.schedule_mp_exchange,
                       "--schedule_mp_exchange is a part of --schedule_times, which is not set");
  if (options.schedule_times) {
    strategy.durations = parse_schedule_times(*options.schedule_times, shape, "--schedule_times");
    if (options.schedule_mp_exchange) {
      require<ConfigError>(strategy.mesh.mp > 1,
                           "--schedule_mp_exchange is what tensor-parallel groups take, and "
                           "--tensor_parallel_degree is 1: remove it");
      schedule::set_exchanges(*strategy.durations, *options.schedule_mp_exchange, shape.chunks_per_rank,
                              "--schedule_mp_exchange");
    } else if (strategy.mesh.mp > 1) {
      schedule::assume_exchanges(*strategy.durations);
    }
  }
  if (options.do_train || is_dry_run(options)) strategy.memory_limit_bytes = options.schedule_memory_limit;
  if (options.enable_send_recv_overlap) strategy.receives = schedule::ReceivePosting::kEarly;
  strategy.recompute = recomputation_of(options);
  if (strategy.recompute != Recomputation::kNone) strategy.no_recompute_layers = options.no_recompute_layers;
  strategy.early_weight_gradients = options.early_weight_gradients;
  require<ConfigError>(
      !strategy.early_weight_gradients || strategy.mesh.sharding == 1 ||
          strategy.reduce_timing() == ReduceTiming::kStep,
      "--early_weight_gradients adds up gradients of several microbatches at a time, but they are reduced "
      "after each (with sharding stages 2 and 3 by default): add --sharding_reduce step");
  validate(strategy);
  return strategy;
}

LearningRateCurve curve_of(const PretrainOptions& options) {
  LearningRateCurve curve = {.peak = options.learning_rate,
                             .floor = options.min_learning_rate,
                             .warmup_steps = warmup_steps(options),
                             .decay_steps = decay_steps(options),
                             .decay = Decay::kLinear};
  if (options.lr_scheduler_type == "cosine") curve.decay = Decay::kCosine;
  if (options.lr_scheduler_type.starts_with("constant")) curve.decay = Decay::kConstant;
  return curve;
}

Precision precision_of(const PretrainOptions& options) {
  if (options.fp16) return Precision::kFloat16;
  return options.bf16 ? Precision::kBfloat16 : Precision::kFloat32;
}

TrainingOptions training_of(const PretrainOptions& options) {
  LossScaling scaling;
  if (options.fp16) scaling.initial = options.scale_loss;
  return {.microbatch_sequences = options.per_device_train_batch_size,
          .sequence_tokens = options.max_seq_length,
          .microbatches = options.gradient_accumulation_steps,
          .max_steps = options.do_train ? options.max_steps : 0,
          .evaluation_sequences = options.do_eval ? options.per_device_eval_batch_size : 0,
          .precision = precision_of(options),
          .loss_scaling = scaling,
          .learning_rate = curve_of(options),
          .adamw = {.beta1 = options.adam_beta1,
                    .beta2 = options.adam_beta2,
                    .eps = options.adam_epsilon,
                    .weight_decay = options.weight_decay},
          .max_grad_norm = options.max_grad_norm};
}

}  // namespace

RunOptions run_options(const PretrainOptions& options, std::optional<int64_t> world_size) {
  RunOptions run = {.strategy = strategy_of(options, world_size),
                    .training = training_of(options),
                    .device = options.device == "cpu" ? Device::kCpu : Device::kCuda,
                    .timeout = options.dist_timeout,
                    .seed = options.seed,
                    .split = options.split,
                    .data_seed = data_seed(options),
                    .evaluation_steps = options.eval_steps.value_or(options.logging_steps),
                    .evaluation_microbatches = options.do_eval ? options.eval_iters.value_or(10) : 0,
                    .evaluates_small_part_whole = options.do_eval && !options.eval_iters,
                    .logging_steps = options.logging_steps,
                    .output_dir = options.output_dir,
                    .exports_model = options.do_train && !options.skip_export};
  if (options.continue_training) run.initial_weights = options.model_name_or_path;
  if (!options.synthetic_data) run.input_dir = options.input_dir;
  if (options.profile_steps) {
    const std::array<int64_t, 2> steps = profiled_steps(*options.profile_steps);
    if (options.do_train) run.profiled_steps = steps;
  }
  return run;
}

}  // namespace braid::config
