#include "braid/cli/pretrain_command.h"

#include <ATen/Parallel.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <mutex>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/progress_bar.h"
#include "braid/cli/version.h"
#include "braid/comm/store.h"
#include "braid/comm/world.h"
#include "braid/config/pretrain.h"
#include "braid/config/pretrain_table.h"
#include "braid/data/tokenizer/tokenizer.h"
#include "braid/model/llama.h"
#include "braid/tensor/memory.h"
#include "braid/train/plan_drawing.h"
#include "braid/train/plan_text.h"
#include "braid/train/pretrain.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

/// While it lives, the first SIGINT or SIGTERM only sets a flag; the second acts as if nobody had asked.
class StopSignals {
 public:
  StopSignals() {
    struct sigaction action = {};
    action.sa_handler = [](int) { asked = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~StopSignals() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool seen() { return asked != 0; }

 private:
  // A handler can reach nothing but what is static.
  static inline volatile sig_atomic_t asked = 0;
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

/// "[2026-11-30 14:05:09,123] [    INFO] - ", as PaddleNLP's logger writes it, in local time.
std::string log_prefix() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  const std::string padded = cat(1000 + millis).substr(1);
  return cat("[", text, ",", padded, "] [    INFO] - ");
}

/// The log on one stream, with a progress bar below it where a terminal shows rank 0.
class Log {
 public:
  Log(const CommandContext& context, const config::PretrainOptions& options, int rank) : out_(context.out) {
    if (context.out_columns && rank == 0 && !options.disable_tqdm) {
      bar_ = std::make_unique<ProgressBar>(out_,
                                           ProgressOptions{.label = "train", .columns = context.out_columns});
    }
  }

  /// From any thread.
  void line(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const std::string whole = cat(log_prefix(), text, "\n");
    if (bar_) {
      bar_->print(whole);
    } else {
      out_ << whole << std::flush;
    }
  }

  void step(const report::StepMetrics& metrics, int64_t max_steps) {
    const std::lock_guard lock(mutex_);
    if (!bar_) return;
    const double done = static_cast<double>(metrics.global_step) / static_cast<double>(max_steps);
    const double rate = static_cast<double>(metrics.tokens) / metrics.elapsed.count();
    bar_->update(done, cat("step ", metrics.global_step, "/", max_steps, " loss ", fixed(metrics.loss, 4),
                           " ", fixed(rate, 0), " tokens/s"));
  }

 private:
  std::mutex mutex_;
  std::ostream& out_;
  std::unique_ptr<ProgressBar> bar_;
};

/// What ranks must agree on: every option. Where they differ, nothing good can follow.
std::string fingerprint(const config::PretrainOptions& options, const config::ModelConfig& model) {
  std::ostringstream text;
  text << config::pretrain_table().print_back(options) << model;
  return text.str();
}

void prepare_output(const config::PretrainOptions& options) {
  const fs::path output(options.output_dir);
  std::error_code error;
  require<ConfigError>(options.overwrite_output_dir || !fs::exists(output / "metrics.jsonl", error),
                       "--output_dir ", options.output_dir,
                       " holds an earlier run (metrics.jsonl): name another directory, or give "
                       "--overwrite_output_dir 1 to replace it");
  fs::create_directories(output, error);
  require<ConfigError>(!error, "--output_dir ", options.output_dir, " cannot be made: ", error.message());
}

void set_threads(const CommandContext& context, const config::PretrainOptions& options) {
  int64_t threads = options.num_threads;
  if (threads == 0) threads = parse_int(lookup(context, "OMP_NUM_THREADS").value_or("1")).value_or(1);
  at::set_num_threads(static_cast<int>(threads));
}

/// Puts the tokenizer beside the exported model, so that the directory is whole.
void export_tokenizer(const data::Tokenizer* tokenizer, const config::PretrainOptions& options) {
  if (tokenizer == nullptr || !tokenizer->file() || !options.do_train || options.skip_export) return;
  std::error_code error;
  fs::copy_file(*tokenizer->file(), fs::path(options.output_dir) / "hf" / "tokenizer.model",
                fs::copy_options::overwrite_existing, error);
  require<DataError>(!error, "cannot copy ", tokenizer->file()->string(), " to ", options.output_dir,
                     "/hf: ", error.message());
}

/// The tokenizer that the options name, or null.
std::unique_ptr<data::Tokenizer> make_tokenizer(const config::PretrainOptions& options) {
  if (!options.tokenizer_name_or_path) return nullptr;
  return data::make_tokenizer(*options.tokenizer_name_or_path);
}

config::ModelConfig model_of(const config::PretrainOptions& options, const data::Tokenizer* tokenizer) {
  return config::resolve_model(options,
                               tokenizer ? std::optional(tokenizer->vocabulary_size()) : std::nullopt);
}

void print_plan(const CommandContext& context, const config::PretrainCommand& command) {
  const std::unique_ptr<data::Tokenizer> tokenizer = make_tokenizer(command.options);
  for (const std::string& note : command.notes) context.err << note << "\n";
  config::TrainingOptions training = command.run.training;
  if (training.max_steps < 1) {  // what is planned is a training, however long
    training.max_steps = 1;
    training.learning_rate = {};
  }
  const train::RunPlan plan = train::make_run_plan(
      command.run.strategy, training, model::llama_spec(model_of(command.options, tokenizer.get())), {},
      command.run.device == config::Device::kCpu ? c10::kCPU : c10::kCUDA);
  if (command.options.dry_run == "json") {
    context.out << train::plan_json(plan) << "\n";
    return;
  }
  if (command.options.dry_run == "svg") {
    context.out << train::draw_plan(plan, static_cast<int32_t>(command.options.ranks_per_node));
    return;
  }
  for (const std::string& line : train::plan_text(plan)) context.out << line << "\n";
}

int train(const CommandContext& context, const comm::World& world, const config::PretrainCommand& command) {
  const config::PretrainOptions& options = command.options;
  const std::unique_ptr<data::Tokenizer> tokenizer = make_tokenizer(options);
  const config::ModelConfig model = model_of(options, tokenizer.get());
  if (options.device != "cpu") tensor::memory_stats(c10::Device(c10::kCUDA, 0));  // throws without CUDA
  prepare_output(options);
  set_threads(context, options);
  tensor::install_cpu_allocator();

  const StopSignals signals;
  Log log(context, options, world.rank);
  for (const std::string& note : command.notes) log.line(note);
  const c10::intrusive_ptr<c10d::Store> store = comm::connect_store(
      world, options.dist_timeout,
      {.braid_version = std::string(kVersion), .report = [&](const std::string& line) { log.line(line); }});
  comm::handshake(*store, world,
                  {.braid_version = std::string(kVersion), .config_fingerprint = fingerprint(options, model)},
                  options.dist_timeout);
  const train::PretrainSummary summary =
      train::pretrain({.options = command.run,
                       .model = model,
                       .world = world,
                       .store = store,
                       .gloo_interface = lookup(context, "GLOO_SOCKET_IFNAME").value_or(""),
                       .reporter = {.line = [&](const std::string& line) { log.line(line); },
                                    .step = [&](const report::StepMetrics& step,
                                                int64_t max_steps) { log.step(step, max_steps); }},
                       .stop_requested = [] { return StopSignals::seen(); }});
  if (world.rank == 0) export_tokenizer(tokenizer.get(), options);
  if (summary.stopped)
    log.line(cat("stopped by a signal after step ", summary.steps, " of ", options.max_steps));
  return 0;
}

}  // namespace

int pretrain_command(const CommandContext& context) {
  for (const std::string& word : context.arguments) {
    if (word == "--help_markdown") {
      context.out << config::options_markdown();
      return 0;
    }
  }
  if (const auto help = help_request(context.arguments)) {
    context.out << config::pretrain_help(help->topic);
    return 0;
  }
  const comm::World world =
      comm::world_from_environment([&](std::string_view name) { return lookup(context, name); });
  try {
    const config::PretrainCommand command = config::parse_pretrain(context.arguments, world.world_size);
    if (!config::is_dry_run(command.options)) return train(context, world, command);
    if (world.rank == 0) print_plan(context, command);
    return 0;
  } catch (...) {
    const std::string who = world.world_size > 1
                                ? cat(context.name, ", rank ", world.rank, " of ", world.world_size)
                                : context.name;
    return report_exception(who, context.err);
  }
}

}  // namespace braid::cli
