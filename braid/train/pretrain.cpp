#include "braid/train/pretrain.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cost/layer_cost.h"
#include "braid/kernels/gemm_clock.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/optim/learning_rate.h"
#include "braid/report/interval_meter.h"
#include "braid/train/learning_rate_proposal.h"
#include "braid/train/metrics_file.h"
#include "braid/train/microbatch_source.h"
#include "braid/train/plan_text.h"
#include "braid/train/profile.h"
#include "braid/train/stage_weights.h"
#include "braid/train/trainer.h"

namespace braid::train {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

c10::Device device_of(const PretrainJob& job) {
  if (job.options.device == config::Device::kCpu) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA,
                     static_cast<c10::DeviceIndex>(job.world.local_device.value_or(job.world.local_rank)));
}

/// The size up to which a validation part is small: evaluating it (a forward pass) then takes less than a
/// tenth of the training between two evaluations.
int64_t small_part_tokens(const config::RunOptions& o) {
  constexpr int64_t kWithoutTraining = 1'000'000;
  const config::TrainingOptions& training = o.training;
  if (training.max_steps == 0) return kWithoutTraining;
  const int64_t data_ranks = int64_t{o.strategy.mesh.sharding} * o.strategy.mesh.dp;
  const int64_t step_tokens =
      training.microbatch_sequences * training.microbatches * training.sequence_tokens * data_ranks;
  const int64_t usual =
      o.evaluation_microbatches * training.evaluation_sequences * training.sequence_tokens * data_ranks;
  return std::max(step_tokens * std::min(o.evaluation_steps, training.max_steps) / 4, usual);
}

std::unique_ptr<MicrobatchSource> open_source(const PretrainJob& job) {
  const config::RunOptions& o = job.options;
  const config::TrainingOptions& training = o.training;
  const mesh::MeshShape& mesh = o.strategy.mesh;
  mesh::validate(mesh, job.world.world_size);
  const mesh::Coordinates place = mesh::coordinates_of(mesh, job.world.rank);
  const int64_t data_rank = int64_t{mesh.sharding} * place.dp + place.sharding;
  // After every evaluation_steps, and at the end.
  const int64_t evaluations = training.max_steps / o.evaluation_steps + 1;
  const SourceOptions options = {.input_dir = o.input_dir.value_or(""),
                                 .split = o.split,
                                 .seed = o.data_seed,
                                 .vocabulary = job.model.vocab_size,
                                 .sequence_tokens = training.sequence_tokens,
                                 .train_microbatch = training.microbatch_sequences,
                                 .eval_microbatch = training.evaluation_sequences,
                                 .microbatches = training.microbatches,
                                 .eval_iterations = o.evaluation_microbatches,
                                 .whole_part_tokens = o.evaluates_small_part_whole ? small_part_tokens(o) : 0,
                                 .max_steps = training.max_steps,
                                 .data_rank = data_rank,
                                 .data_ranks = int64_t{mesh.sharding} * mesh.dp,
                                 .evaluations = evaluations,
                                 .check_threads = job.world.local_rank == 0 ? at::get_num_threads() : 0};
  return o.input_dir ? open_token_files(options) : make_random_tokens(options);
}

/// The trainer of the job's model.
Trainer::Options trainer_options(const PretrainJob& job) {
  const config::RunOptions& o = job.options;
  Trainer::Options options = {.strategy = o.strategy,
                              .training = o.training,
                              .model = model::llama_spec(job.model),
                              .place = {.world = job.world,
                                        .store = job.store,
                                        .device = device_of(job),
                                        .timeout = o.timeout,
                                        .gloo_interface = job.gloo_interface}};
  config::Strategy& strategy = options.strategy;
  if (strategy.offloads_optimizer && strategy.offload_dir.empty() && options.place.device.is_cpu()) {
    strategy.offload_dir = o.output_dir;
  }
  options.sample = [&job, device = options.place.device]() -> pipeline::Microbatch {
    const config::TrainingOptions& training = job.options.training;
    const at::Tensor tokens =
        at::randint(job.model.vocab_size, {training.microbatch_sequences, training.sequence_tokens},
                    at::TensorOptions(device).dtype(at::kLong));
    return {.tokens = tokens, .labels = tokens};
  };
  if (o.initial_weights) {
    const auto weights = std::make_shared<const checkpoint::HfWeights>(*o.initial_weights);
    for (const std::string& name : unused_tensors(*weights, options.model.layers)) {
      job.reporter.line(cat("not used: ", name, " of ", *o.initial_weights));
    }
    options.initialise = [weights](std::span<tensor::Parameter* const> parameters) {
      load_weights(parameters, *weights);
    };
  } else {
    options.initialise = [&job](std::span<tensor::Parameter* const> parameters) {
      model::initialise(parameters, {.deviation = job.model.initializer_range,
                                     .seed = static_cast<uint64_t>(job.options.seed)});
    };
  }
  return options;
}

/// A run with everything made: trains, evaluates, and writes down how it goes.
class Run {
 public:
  Run(const PretrainJob& job, const MicrobatchSource& source, Trainer& trainer)
      : job_(job), source_(source), trainer_(trainer) {
    if (trainer_.world().index() != 0) return;
    const std::filesystem::path path = std::filesystem::path(job.options.output_dir) / "metrics.jsonl";
    metrics_ = std::make_unique<MetricsFile>(path);
  }

  void describe() const;
  void train();
  void evaluate();
  void export_model();

  const PretrainSummary& summary() const { return summary_; }

 private:
  void run_step(int64_t step);
  /// Writes what all ranks recorded of a step to <output_dir>/profile, and how it compares with the plan.
  void write_timeline(const ActionRecorder& recorder, int64_t step);
  /// Where a step's outcome goes.
  void report(const StepOutcome& outcome);
  void report_whole_training(Seconds elapsed) const;
  bool is_profiled(int64_t step) const;
  void append_metrics(const std::string& json);

  const PretrainJob& job_;
  const MicrobatchSource& source_;
  Trainer& trainer_;
  std::unique_ptr<MetricsFile> metrics_;  // of rank 0
  std::optional<MicrobatchSource::EvaluatedPart> evaluated_part_;
  std::optional<report::IntervalMeter> interval_;
  std::optional<report::StepMetrics> unreported_;  // of the last step, where its outcome is not known yet
  int64_t train_tokens_ = 0;
  Seconds step_time_{0};
  PretrainSummary summary_;
};

void Run::describe() const {
  for (const std::string& line : plan_text(trainer_.plan())) job_.reporter.line(line);
  if (job_.options.proposes_learning_rate) job_.reporter.line(learning_rate_proposal(trainer_.plan()));
  job_.reporter.line(cat("this is rank ", trainer_.world().index(), ", with ",
                         counted(at::get_num_threads(), "compute thread")));
  for (const std::string& line : source_.describe()) job_.reporter.line(line);
}

void Run::append_metrics(const std::string& json) {
  if (metrics_) metrics_->append(json);
}

void Run::evaluate() {
  const auto begin = Clock::now();
  const std::vector<pipeline::Microbatch> microbatches = source_.evaluation();
  const Evaluation evaluation = trainer_.evaluate(microbatches);
  const Clock::duration elapsed = Clock::now() - begin;
  if (!evaluated_part_) evaluated_part_ = source_.evaluated_part();
  const report::EvalMetrics metrics = {.global_step = summary_.steps,
                                       .loss = evaluation.loss,
                                       .tokens = evaluation.tokens,
                                       .samples = job_.options.training.evaluation_sequences *
                                                  std::ssize(microbatches) * trainer_.plan().data_ranks(),
                                       .part_tokens = evaluated_part_->tokens,
                                       .text_bytes = evaluated_part_->text_bytes,
                                       .elapsed = elapsed};
  summary_.eval_losses.push_back(metrics.loss);
  job_.reporter.entry(report::log_entry(metrics));
  append_metrics(report::to_json(metrics));
}

void Run::report(const StepOutcome& outcome) {
  const int64_t max_steps = job_.options.training.max_steps;
  report::StepMetrics metrics = *std::exchange(unreported_, std::nullopt);
  metrics.loss = outcome.loss;
  metrics.grad_norm = outcome.grad_norm;
  metrics.tokens = outcome.tokens;
  metrics.memory = outcome.memory;
  metrics.skipped = outcome.skipped;
  metrics.loss_scale = outcome.loss_scale;
  if (outcome.skipped) {
    job_.reporter.line(cat("step ", outcome.step,
                           " was skipped: its gradients overflowed at a loss scale of ",
                           to_text(*outcome.loss_scale)));
  }
  append_metrics(report::to_json(metrics));
  job_.reporter.step(metrics, max_steps);
  summary_.losses.push_back(outcome.loss);
  summary_.grad_norms.push_back(outcome.grad_norm);
  summary_.stopped |= outcome.stop_requested && summary_.steps < max_steps;
  train_tokens_ += metrics.tokens;
  step_time_ += metrics.elapsed;
  interval_->add(metrics);
  const bool is_due = metrics.global_step % job_.options.logging_steps == 0;
  if (is_due || metrics.global_step == max_steps || summary_.stopped) {
    job_.reporter.entry(report::log_entry(interval_->take()));
  }
}

bool Run::is_profiled(int64_t step) const {
  const auto& steps = job_.options.profiled_steps;
  return steps && (*steps)[0] <= step && step <= (*steps)[1];
}

void Run::run_step(int64_t step) {
  ActionRecorder recorder;
  trainer_.observe(is_profiled(step) ? &recorder : nullptr);
  if (job_.stop_requested()) trainer_.request_stop();
  const auto begin = Clock::now();
  const auto gemm_begin = kernels::gemm_time();
  const std::optional<StepOutcome> outcome = trainer_.step(source_.train_step(step - 1));
  const Seconds elapsed = Clock::now() - begin;
  trainer_.observe(nullptr);
  summary_.steps = step;
  if (outcome && outcome->step < step) report(*outcome);
  unreported_ = {.global_step = step,
                 .learning_rate = optim::learning_rate(job_.options.training.learning_rate, step),
                 .elapsed = elapsed,
                 .gemm_share = Seconds(kernels::gemm_time() - gemm_begin) / elapsed};
  if (outcome && outcome->step == step) report(*outcome);
  if (is_profiled(step)) write_timeline(recorder, step);
}

void Run::write_timeline(const ActionRecorder& recorder, int64_t step) {
  const StepProfile profile = gather_profile(recorder, trainer_.plan(), trainer_.world());
  if (trainer_.world().index() != 0) return;
  const std::filesystem::path folder = std::filesystem::path(job_.options.output_dir) / "profile";
  job_.reporter.line(cat("step ", step, ": ", write_profile(profile, folder, step)));
}

void Run::train() {
  const config::RunOptions& o = job_.options;
  const RunPlan& plan = trainer_.plan();
  interval_.emplace(report::RunShape{.max_steps = o.training.max_steps,
                                     .samples_per_step = plan.samples_per_step(),
                                     .ranks = trainer_.world().size(),
                                     .rank = trainer_.world().index(),
                                     .flops_per_token = flops_per_token(plan)});
  const auto begin = Clock::now();
  for (int64_t step = 1; step <= o.training.max_steps && !summary_.stopped; ++step) {
    run_step(step);
    const bool evaluates = o.evaluation_microbatches > 0 && step % o.evaluation_steps == 0 &&
                           step < o.training.max_steps && !summary_.stopped;
    if (evaluates || step == o.training.max_steps || summary_.stopped) {
      if (const std::optional<StepOutcome> outcome = trainer_.finish()) report(*outcome);
    }
    if (evaluates && !summary_.stopped) evaluate();
  }
  report_whole_training(Clock::now() - begin);
}

void Run::report_whole_training(Seconds elapsed) const {
  const double sum = std::accumulate(summary_.losses.begin(), summary_.losses.end(), 0.0);
  const int64_t losses = std::ssize(summary_.losses);
  job_.reporter.entry(report::log_entry(
      report::TrainingMetrics{.steps = summary_.steps,
                              .loss = losses == 0 ? 0.0 : sum / static_cast<double>(losses),
                              .samples = summary_.steps * trainer_.plan().samples_per_step(),
                              .tokens = train_tokens_,
                              .ranks = trainer_.world().size(),
                              .elapsed = elapsed,
                              .step_time = step_time_}));
}

void Run::export_model() {
  const std::filesystem::path directory = std::filesystem::path(job_.options.output_dir) / "hf";
  trainer_.gather_values();
  std::vector<tensor::SliceValues> tensors = whole_tensors(trainer_.parameters(), trainer_.mp());
  if (trainer_.data_rank() != 0) tensors.clear();  // data ranks have the same: the first writes them
  export_weights(tensors, directory, job_.model, trainer_.world());
  trainer_.release_values();
  job_.reporter.line(cat("model exported to ", directory.string()));
}

}  // namespace

PretrainSummary pretrain(const PretrainJob& job) {
  const config::RunOptions& o = job.options;
  const bool evaluates = o.evaluation_microbatches > 0;
  const std::unique_ptr<MicrobatchSource> source = open_source(job);
  Trainer trainer(trainer_options(job));
  Run run(job, *source, trainer);
  run.describe();
  if (o.training.max_steps > 0) run.train();
  if (evaluates && !run.summary().stopped) run.evaluate();
  if (o.exports_model) run.export_model();
  trainer.world().barrier().wait();  // nobody leaves while a neighbour still waits for its last message
  return run.summary();
}

}  // namespace braid::train
