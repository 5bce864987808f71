#include "braid/config/run_options.h"

#include <limits>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/options.h"
#include "braid/config/pretrain.h"
#include "braid/config/schedule_times.h"
#include "braid/config/text_file.h"
#include "braid/schedule/csv.h"

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

int64_t degree_of(int64_t degree) { return degree == -1 ? 1 : degree; }

/// PaddleNLP's names of the degrees, for messages.
std::string degrees_text(const PretrainOptions& options) {
  return cat("--tensor_parallel_degree ", options.tensor_parallel_degree, ", --sharding_parallel_degree ",
             options.sharding_parallel_degree, ", --pipeline_parallel_degree ",
             options.pipeline_parallel_degree, " and --data_parallel_degree ", options.data_parallel_degree);
}

/// 1 for "stage1" and so on.
int32_t stage_of(const PretrainOptions& options) {
  return options.sharding.starts_with("stage") ? options.sharding[5] - '0' : 1;
}

Strategy strategy_of(const PretrainOptions& options, std::optional<int64_t> world_size) {
  Strategy strategy = {.mesh = mesh_of(options, world_size)};
  strategy.sharding_stage = stage_of(options);
  if (options.sharding_reduce) {
    strategy.sharding_reduce =
        *options.sharding_reduce == "step" ? ReduceTiming::kStep : ReduceTiming::kMicrobatch;
  }
  strategy.sequence_parallel = options.sequence_parallel;
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
  if (options.schedule_times) {
    strategy.durations = parse_schedule_times(*options.schedule_times, shape, "--schedule_times");
  }
  if (options.do_train || is_dry_run(options)) strategy.memory_limit_bytes = options.schedule_memory_limit;
  if (options.enable_send_recv_overlap) strategy.receives = schedule::ReceivePosting::kEarly;
  strategy.segment_bytes = static_cast<int64_t>(options.segment_broadcast_mb * (1 << 20));
  for (const std::string& anchor : split(options.segment_anchors, ' ')) {
    if (!anchor.empty()) strategy.segment_anchors.push_back(anchor);
  }
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

TrainingOptions training_of(const PretrainOptions& options) {
  return {.microbatch_sequences = options.per_device_train_batch_size,
          .sequence_tokens = options.max_seq_length,
          .microbatches = options.gradient_accumulation_steps,
          .max_steps = options.do_train ? options.max_steps : 0,
          .evaluation_sequences = options.do_eval ? options.per_device_eval_batch_size : 0,
          .precision = options.bf16   ? Precision::kBfloat16
                       : options.fp16 ? Precision::kFloat16
                                      : Precision::kFloat32,
          .loss_scaling = {.initial = options.scale_loss},
          .learning_rate = curve_of(options),
          .adamw = {.beta1 = options.adam_beta1,
                    .beta2 = options.adam_beta2,
                    .eps = options.adam_epsilon,
                    .weight_decay = options.weight_decay},
          .max_grad_norm = options.max_grad_norm};
}

}  // namespace

mesh::MeshShape mesh_of(const PretrainOptions& options, std::optional<int64_t> world_size) {
  const int64_t mp = degree_of(options.tensor_parallel_degree), pp = pipeline_ranks(options);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto require_product = [&](bool fits) {
    require<ConfigError>(fits, "the job has ", counted(world_size.value_or(1), "rank"), ", but ",
                         degrees_text(options),
                         " need another number: their product, where -1 is 1 or what remains, ",
                         "must be the number of ranks");
  };
  for (const int64_t degree :
       {mp, pp, degree_of(options.sharding_parallel_degree), degree_of(options.data_parallel_degree)}) {
    require<ConfigError>(degree <= kMost, "a degree may be at most ", kMost, ", got ", degree);
  }
  int64_t sharding = degree_of(options.sharding_parallel_degree),
          dp = degree_of(options.data_parallel_degree);
  if (world_size) {
    require_product(*world_size % mp == 0 && *world_size / mp % pp == 0);
    const int64_t data_ranks = *world_size / mp / pp;
    const bool shards_the_rest = !options.sharding.empty() && options.sharding_parallel_degree == -1;
    if (shards_the_rest) {
      require_product(data_ranks % dp == 0);
      sharding = data_ranks / dp;
    } else if (options.data_parallel_degree == -1) {
      require_product(data_ranks % sharding == 0);
      dp = data_ranks / sharding;
    }
    require_product(sharding * dp == data_ranks);
  }
  return {.mp = static_cast<int32_t>(mp),
          .sharding = static_cast<int32_t>(sharding),
          .pp = static_cast<int32_t>(pp),
          .dp = static_cast<int32_t>(dp)};
}

RunOptions run_options(const PretrainOptions& options, std::optional<int64_t> world_size) {
  RunOptions run = {.strategy = strategy_of(options, world_size),
                    .training = training_of(options),
                    .device = options.device == "cpu" ? Device::kCpu : Device::kCuda,
                    .timeout = options.dist_timeout,
                    .seed = options.seed,
                    .split = options.split,
                    .data_seed = data_seed(options),
                    .evaluation_steps = options.eval_steps.value_or(options.logging_steps),
                    .evaluation_microbatches = options.do_eval ? options.eval_iters : 0,
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
