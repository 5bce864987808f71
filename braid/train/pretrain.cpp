#include "braid/train/pretrain.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/pretrain.h"
#include "braid/cost/layer_cost.h"
#include "braid/kernels/gemm_clock.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/model/llama_cost.h"
#include "braid/pipeline/layer_chunk.h"
#include "braid/report/interval_meter.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/forward_only.h"
#include "braid/tensor/memory.h"
#include "braid/train/microbatch_source.h"
#include "braid/train/part_times.h"
#include "braid/train/pipeline_plan.h"
#include "braid/train/profile.h"
#include "braid/train/rank_model.h"
#include "braid/train/stage_weights.h"
#include "braid/train/training_step.h"

namespace braid::train {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

c10::Device device_of(const PretrainJob& job) {
  if (job.options.device == "cpu") return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA,
                     static_cast<c10::DeviceIndex>(job.world.local_device.value_or(job.world.local_rank)));
}

optim::LearningRateCurve curve_of(const config::PretrainOptions& options) {
  optim::Decay decay = optim::Decay::kLinear;
  if (options.lr_scheduler_type == "cosine") decay = optim::Decay::kCosine;
  if (options.lr_scheduler_type.starts_with("constant")) decay = optim::Decay::kConstant;
  return {.peak = options.learning_rate,
          .floor = options.min_learning_rate,
          .warmup_steps = config::warmup_steps(options),
          .decay_steps = config::decay_steps(options),
          .decay = decay};
}

/// The steps after which the model is evaluated: every eval_steps, and the last.
int64_t evaluations_of(const config::PretrainOptions& options) {
  const int64_t every = options.eval_steps.value_or(options.logging_steps);
  return options.do_train ? options.max_steps / every + 1 : 1;
}

/// Where the options cut parameters into segments. Throws ConfigError for an anchor that is no layer of the
/// model.
tensor::SegmentCut segment_cut(const config::PretrainOptions& options,
                               std::span<const layers::LayerSpec> layers) {
  tensor::SegmentCut cut = {.bytes = static_cast<int64_t>(options.segment_broadcast_mb * (1 << 20))};
  for (const std::string& anchor : split(options.segment_anchors, ' ')) {
    if (anchor.empty()) continue;
    require<ConfigError>(std::ranges::count(layers, anchor, &layers::LayerSpec::name) > 0,
                         "--segment_anchors ", options.segment_anchors, ": the model has no layer ", anchor,
                         "; its layers are ", layers.front().name, ", ", layers[1].name, ", ..., ",
                         layers.back().name);
    cut.anchors.push_back(anchor);
  }
  return cut;
}

/// The rank's part of the run: its stages, links, executors.
class Rank {
 public:
  explicit Rank(const PretrainJob& job)
      : job_(job),
        ranks_(static_cast<int>(config::pipeline_ranks(job.options))),
        device_(device_of(job)),
        dtype_(job.options.bf16 ? at::kBFloat16 : at::kFloat),
        source_(open_source()),
        group_(comm::group_of_all(job.world, "pp")),
        backend_(comm::backend_options(job.world, device_, job.options.dist_timeout, job.gloo_interface)),
        pipeline_(job.store, group_, backend_, comm::CallCheck::kOff),
        layers_(model::llama_layers(job.model)),
        plan_(plan_run()),
        model_(make_model()) {
    if (ranks_ > 1) link_ = std::make_unique<comm::PipelineLink>(job.store, group_, link_options());
    for (const StageModel& stage : model_.stages) chunks_.emplace_back(stage.layers);
  }

  PretrainSummary run();

 private:
  PipelinePlan plan_run() {
    PartTimes times;
    if (needs_times(job_.options)) {
      const auto train = activation(job_.options.per_device_train_batch_size);
      const at::Tensor tokens = at::randint(job_.model.vocab_size, {train.sequences, train.sequence_tokens},
                                            at::TensorOptions(device_).dtype(at::kLong));
      times = measure_parts(layers_, {.tokens = tokens, .labels = tokens}, train, pipeline_);
    }
    PipelinePlan plan = make_plan(job_.options, layers_, times);
    // A CSV file may differ from node to node.
    const std::vector<std::string> schedules = pipeline_.all_gather_bytes(schedule::to_csv(plan.compute));
    for (size_t rank = 0; rank < schedules.size(); ++rank) {
      require<ConfigError>(schedules[rank] == schedules.front(), "rank ", rank, " has another schedule (",
                           plan.compute.name, ") than rank 0: all ranks must see the same file");
    }
    return plan;
  }

  comm::PipelineLinkOptions link_options() const {
    const auto numel = [&](int64_t sequences) {
      return sequences * job_.options.max_seq_length * job_.model.hidden_size;
    };
    comm::PipelineLinkOptions options = {
        .backend = backend_, .formats = {}, .edges = edges_of(plan_.compute)};
    const auto add = [&](const comm::MessageFormat& format) {
      if (std::ranges::find(options.formats, format) == options.formats.end())
        options.formats.push_back(format);
    };
    add({.dtype = dtype_, .numel = numel(job_.options.per_device_train_batch_size)});
    if (job_.options.do_eval) add({.dtype = dtype_, .numel = numel(job_.options.per_device_eval_batch_size)});
    if (plan_.tied) {
      add({.dtype = tensor::main_dtype(dtype_), .numel = plan_.tied->numel()});
      const int first = plan_.tied->first_rank, last = plan_.tied->last_rank;
      for (const comm::Edge edge : {comm::Edge{first, last}, comm::Edge{last, first}}) {
        if (first != last && std::ranges::find(options.edges, edge) == options.edges.end()) {
          options.edges.push_back(edge);
        }
      }
    }
    std::ranges::sort(options.edges);
    return options;
  }

  std::unique_ptr<MicrobatchSource> open_source() const {
    const config::PretrainOptions& o = job_.options;
    const SourceOptions options = {.input_dir = o.input_dir,
                                   .split = o.split,
                                   .seed = config::data_seed(o),
                                   .vocabulary = job_.model.vocab_size,
                                   .sequence_tokens = o.max_seq_length,
                                   .train_microbatch = o.per_device_train_batch_size,
                                   .eval_microbatch = o.per_device_eval_batch_size,
                                   .microbatches = o.gradient_accumulation_steps,
                                   .eval_iterations = o.do_eval ? o.eval_iters : 0,
                                   .max_steps = o.do_train ? o.max_steps : 0,
                                   .evaluations = evaluations_of(o),
                                   .check_threads = job_.world.local_rank == 0 ? at::get_num_threads() : 0};
    return o.synthetic_data ? make_random_tokens(options) : open_token_files(options);
  }

  RankModel make_model() {
    RankModel model =
        make_rank_model(plan_.layers_of_rank(job_.world.rank), segment_cut(job_.options, layers_),
                        at::TensorOptions(device_).dtype(dtype_));
    if (job_.options.continue_training) {
      for (const std::string& name :
           load_weights(model.parameters(), job_.options.model_name_or_path, layers_)) {
        job_.reporter.line(cat("not used: ", name, " of ", job_.options.model_name_or_path));
      }
    } else {
      model::initialise(model.parameters(), {.deviation = job_.model.initializer_range,
                                             .seed = static_cast<uint64_t>(job_.options.seed)});
    }
    return model;
  }

  pipeline::Executor make_executor(schedule::Schedule schedule, pipeline::StepEnd* step_end = nullptr) {
    std::vector<pipeline::Chunk*> chunks;
    for (pipeline::LayerChunk& chunk : chunks_) chunks.push_back(&chunk);
    return pipeline::Executor({.schedule = std::move(schedule),
                               .rank = job_.world.rank,
                               .chunks = std::move(chunks),
                               .link = link_.get(),
                               .step_end = step_end});
  }

  pipeline::ActivationSpec activation(int64_t sequences) const {
    return {.sequences = sequences,
            .sequence_tokens = job_.options.max_seq_length,
            .hidden = job_.model.hidden_size,
            .options = at::TensorOptions(device_).dtype(dtype_)};
  }

  /// This rank's microbatches on its device; ranks without an end of the model need only the number.
  std::vector<pipeline::Microbatch> on_device(std::vector<pipeline::Microbatch> microbatches) const {
    for (auto& microbatch : microbatches) {
      const bool begins = plan_.first_rank() == job_.world.rank, ends = plan_.last_rank() == job_.world.rank;
      microbatch.tokens = begins ? microbatch.tokens.to(device_) : at::Tensor();
      microbatch.labels = ends ? microbatch.labels.to(device_) : at::Tensor();
    }
    return microbatches;
  }

  /// Of forward and backward of the whole model.
  double flops_per_token() const {
    double sum = 0;
    for (const layers::LayerSpec& layer : layers_) {
      sum += cost::training_flops(layers::work_of(layer, {.sequence_tokens = job_.options.max_seq_length}));
    }
    return sum;
  }

  void describe() const;
  void train(PretrainSummary& summary);
  void evaluate(int64_t step, PretrainSummary& summary);
  /// Writes what all ranks recorded of a step to <output_dir>/profile, and tells how it compares with the
  /// plan.
  void profile(const ActionRecorder& recorder, int64_t step);
  void append_metrics(const std::string& json);

  const PretrainJob& job_;
  int ranks_;
  c10::Device device_;
  at::ScalarType dtype_;
  std::unique_ptr<MicrobatchSource> source_;
  comm::Group group_;
  comm::BackendOptions backend_;
  comm::Communicator pipeline_;
  std::vector<layers::LayerSpec> layers_;
  PipelinePlan plan_;
  RankModel model_;
  std::unique_ptr<comm::PipelineLink> link_;
  std::vector<pipeline::LayerChunk> chunks_;
  std::unique_ptr<TiedWeight> tied_;
  std::ofstream metrics_;
};

void Rank::describe() const {
  const config::PretrainOptions& o = job_.options;
  const auto say = [&](const auto&... parts) { job_.reporter.line(cat(parts...)); };
  say("model: ", model::llama_parameters(job_.model), " parameters in ", job_.model.num_hidden_layers,
      " layers, ", o.bf16 ? "bfloat16 with float32 master weights" : "float32");
  int64_t mine = 0;
  for (const StageModel& stage : model_.stages) {
    for (const tensor::Segment& segment : stage.segments) {
      for (const tensor::Parameter* parameter : segment.layout.members) mine += parameter->numel();
    }
  }
  std::string holds;
  for (const int32_t stage : plan_.stages_of(job_.world.rank)) {
    const std::span<const layers::LayerSpec> layers = plan_.layers_of(stage);
    holds += cat("stage ", stage, " of ", plan_.stages(), " (", layers.front().name, " to ",
                 layers.back().name, "), ");
  }
  say("this rank: ", holds, mine, " parameters, ", at::get_num_threads(), " compute threads");
  for (const std::string& line : source_->describe()) say(line);
  if (!o.do_train) return;
  say("schedule: ", plan_.compute.name, ", ", o.gradient_accumulation_steps, " microbatches of ",
      o.per_device_train_batch_size, " x ", o.max_seq_length, " tokens a step, ",
      o.per_device_train_batch_size * o.gradient_accumulation_steps, " samples a step, ", o.max_steps,
      " steps");
  const std::vector<int64_t> kept = schedule::peak_memory(plan_.compute, plan_.memory_bytes);
  say("kept for backward passes: at most ",
      bytes_text(static_cast<uint64_t>(kept[static_cast<size_t>(job_.world.rank)])), " on this rank, ",
      bytes_text(static_cast<uint64_t>(*std::ranges::max_element(kept))), " on any");
}

void Rank::append_metrics(const std::string& json) {
  if (!metrics_.is_open()) return;
  metrics_ << json << std::endl;  // flushed: a run that dies leaves every finished step
  require<DataError>(metrics_.good(), "cannot write ", job_.options.output_dir,
                     "/metrics.jsonl: is the disk full?");
}

void Rank::evaluate(int64_t step, PretrainSummary& summary) {
  const auto begin = Clock::now();
  const auto microbatches = on_device(source_->evaluation());
  pipeline::Executor executor =
      make_executor(schedule::forward_only(plan_.compute, static_cast<int32_t>(microbatches.size())));
  const auto losses =
      executor.evaluate({.microbatches = microbatches}, activation(job_.options.per_device_eval_batch_size));
  at::Tensor totals = at::zeros({2}, at::kDouble);
  auto* values = totals.mutable_data_ptr<double>();
  for (const layers::Loss& loss : losses) {
    values[0] += loss.sum;
    values[1] += static_cast<double>(loss.tokens);
  }
  totals = totals.to(device_);
  pipeline_.broadcast(totals, plan_.last_rank()).wait();
  totals = totals.cpu();
  const report::EvalMetrics metrics = {
      .global_step = step,
      .loss = totals[0].item<double>() / totals[1].item<double>(),
      .tokens = static_cast<int64_t>(totals[1].item<double>()),
      .samples = job_.options.per_device_eval_batch_size * static_cast<int64_t>(microbatches.size()),
      .elapsed = Clock::now() - begin};
  summary.eval_losses.push_back(metrics.loss);
  job_.reporter.line(report::log_line(metrics));
  append_metrics(report::to_json(metrics));
}

void Rank::train(PretrainSummary& summary) {
  const config::PretrainOptions& o = job_.options;
  std::vector<optim::AdamW> optimizers;
  for (const StageModel& stage : model_.stages) {
    optimizers.emplace_back(stage.segments, optim::make_memory_store(),
                            optim::AdamWOptions{.beta1 = o.adam_beta1,
                                                .beta2 = o.adam_beta2,
                                                .eps = o.adam_epsilon,
                                                .weight_decay = o.weight_decay});
  }
  TrainingStep training_step(plan_, model_, *tied_, optimizers, pipeline_,
                             {.curve = curve_of(o), .max_grad_norm = o.max_grad_norm, .device = device_});
  pipeline::Executor executor = make_executor(plan_.step, &training_step.step_end());
  const int64_t samples = o.per_device_train_batch_size * o.gradient_accumulation_steps;
  const int64_t eval_every = o.eval_steps.value_or(o.logging_steps);
  report::IntervalMeter interval({.max_steps = o.max_steps,
                                  .samples_per_step = samples,
                                  .ranks = ranks_,
                                  .rank = job_.world.rank,
                                  .flops_per_token = flops_per_token()});
  const std::array<int64_t, 2> profiled =
      o.profile_steps ? config::profiled_steps(*o.profile_steps) : std::array<int64_t, 2>{1, 0};
  const auto train_begin = Clock::now();
  int64_t train_tokens = 0;
  std::optional<report::StepMetrics> unreported;  // of the last step, where its outcome is not known yet
  const auto report = [&](const StepOutcome& outcome) {
    report::StepMetrics metrics = *std::exchange(unreported, std::nullopt);
    metrics.loss = outcome.loss;
    metrics.grad_norm = outcome.grad_norm;
    metrics.tokens = outcome.tokens;
    metrics.memory = outcome.memory;
    append_metrics(report::to_json(metrics));
    job_.reporter.step(metrics, o.max_steps);
    summary.losses.push_back(outcome.loss);
    summary.grad_norms.push_back(outcome.grad_norm);
    summary.stopped |= outcome.stop_requested && summary.steps < o.max_steps;
    train_tokens += metrics.tokens;
    interval.add(metrics);
    if (metrics.global_step % o.logging_steps == 0 || metrics.global_step == o.max_steps || summary.stopped) {
      job_.reporter.line(report::log_line(interval.take()));
    }
  };
  const auto finish = [&] {
    if (const auto outcome = training_step.finish()) report(*outcome);
  };
  for (int64_t step = 1; step <= o.max_steps && !summary.stopped; ++step) {
    const bool is_profiled = profiled[0] <= step && step <= profiled[1];
    ActionRecorder recorder;
    executor.observe(is_profiled ? &recorder : nullptr);
    const auto begin = Clock::now();
    const auto gemm_begin = kernels::gemm_time();
    const std::optional<StepOutcome> outcome =
        training_step.run(executor, step, on_device(source_->train_step(step - 1)),
                          activation(o.per_device_train_batch_size), job_.stop_requested());
    const Seconds elapsed = Clock::now() - begin;
    summary.steps = step;
    const report::StepMetrics metrics = {.global_step = step,
                                         .learning_rate = optim::learning_rate(curve_of(o), step),
                                         .elapsed = elapsed,
                                         .gemm_share = Seconds(kernels::gemm_time() - gemm_begin) / elapsed};
    if (outcome && outcome->step < step) report(*outcome);
    unreported = metrics;
    if (outcome && outcome->step == step) report(*outcome);
    if (is_profiled) profile(recorder, step);
    const bool due = o.do_eval && step % eval_every == 0 && step < o.max_steps && !summary.stopped;
    if (due || step == o.max_steps || summary.stopped) finish();
    if (due && !summary.stopped) evaluate(step, summary);
  }
  const Seconds elapsed = Clock::now() - train_begin;
  const double mean = summary.losses.empty()
                          ? 0.0
                          : std::accumulate(summary.losses.begin(), summary.losses.end(), 0.0) /
                                static_cast<double>(summary.losses.size());
  job_.reporter.line(cat(
      "train_runtime: ", fixed(elapsed.count(), 4), ", train_samples_per_second: ",
      fixed(static_cast<double>(summary.steps * samples) / elapsed.count(), 4), ", train_steps_per_second: ",
      fixed(static_cast<double>(summary.steps) / elapsed.count(), 4), ", train_loss: ", fixed(mean, 8)));
  job_.reporter.line(cat(
      "Effective Tokens per second: ", fixed(static_cast<double>(train_tokens) / elapsed.count(), 2),
      ", ips: ", fixed(static_cast<double>(train_tokens) / elapsed.count() / ranks_, 2), " tokens/s/device"));
}

void Rank::profile(const ActionRecorder& recorder, int64_t step) {
  const report::Timeline timeline = gather_timeline(recorder, plan_.step, pipeline_);
  if (job_.world.rank != 0) return;
  const std::filesystem::path folder = std::filesystem::path(job_.options.output_dir) / "profile";
  job_.reporter.line(cat("step ", step, ": ", write_profile(timeline, folder, step)));
}

PretrainSummary Rank::run() {
  const config::PretrainOptions& o = job_.options;
  const std::filesystem::path output(o.output_dir);
  tied_ = std::make_unique<TiedWeight>(model_, plan_, job_.world.rank, link_.get());
  if (job_.world.rank == 0) {
    metrics_.open(output / "metrics.jsonl", std::ios::trunc);
    require<DataError>(metrics_.good(), "cannot write ", (output / "metrics.jsonl").string());
  }
  describe();
  PretrainSummary summary;
  if (o.do_train) train(summary);
  if (o.do_eval && !summary.stopped) evaluate(summary.steps, summary);
  if (o.do_train && !o.skip_export) {
    std::vector<tensor::Parameter*> exported = model_.parameters();
    std::erase_if(exported, [&](const tensor::Parameter* parameter) { return !tied_->counts(*parameter); });
    export_weights(exported, output / "hf", job_.model, pipeline_);
    job_.reporter.line(cat("model exported to ", (output / "hf").string()));
  }
  pipeline_.barrier().wait();  // nobody leaves while a neighbour still waits for its last message
  return summary;
}

}  // namespace

PretrainSummary pretrain(const PretrainJob& job) {
  config::require_world_size(job.options, job.world.world_size);
  require<ConfigError>(job.options.do_train || job.options.do_eval,
                       "nothing to do: give --do_train, --do_eval or both");
  return Rank(job).run();
}

}  // namespace braid::train
