#include "braid/cli/pretrain_command.h"

#include <signal.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/fingerprint.h"
#include "braid/base/text.h"
#include "braid/cli/compute_threads.h"
#include "braid/cli/machine.h"
#include "braid/cli/run_log.h"
#include "braid/cli/run_record.h"
#include "braid/cli/run_reports.h"
#include "braid/cli/stop_signals.h"
#include "braid/cli/version.h"
#include "braid/comm/store.h"
#include "braid/comm/world.h"
#include "braid/config/pretrain.h"
#include "braid/config/pretrain_table.h"
#include "braid/data/index/input.h"
#include "braid/data/tokenizer/tokenizer.h"
#include "braid/data/tokenizer_identity.h"
#include "braid/model/llama.h"
#include "braid/tensor/memory.h"
#include "braid/train/learning_rate_proposal.h"
#include "braid/train/plan_drawing.h"
#include "braid/train/plan_text.h"
#include "braid/train/pretrain.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

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
  require<OutputError>(!error, "--output_dir ", options.output_dir, " cannot be created: ", error.message(),
                       "; ", write_remedy(error.value()));
}

void set_threads(const CommandContext& context, const config::PretrainOptions& options) {
  int64_t threads = options.num_threads;
  if (threads == 0) threads = parse_int(lookup(context, "OMP_NUM_THREADS").value_or("1")).value_or(1);
  start_compute_threads(threads);
}

/// Puts the tokenizer beside the exported model, so that the directory is whole.
void export_tokenizer(const data::Tokenizer* tokenizer, const config::PretrainOptions& options) {
  if (tokenizer == nullptr || !tokenizer->file() || !options.do_train || options.skip_export) return;
  std::error_code error;
  fs::copy_file(*tokenizer->file(), fs::path(options.output_dir) / "hf" / "tokenizer.model",
                fs::copy_options::overwrite_existing, error);
  require<OutputError>(!error, "cannot copy ", tokenizer->file()->string(), " to ", options.output_dir,
                       "/hf: ", error.message(), "; ", write_remedy(error.value()));
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
  if (command.run.proposes_learning_rate && command.run.training.max_steps > 0) {
    context.out << train::learning_rate_proposal(plan) << "\n";
  }
}

/// The names of the machines of all ranks, each once, on rank 0; nothing on the others.
std::vector<std::string> gather_hosts(c10d::Store& store, const comm::World& world) {
  const auto key = [](int rank) { return cat("host_of_rank_", rank); };
  const std::string own = host_name();
  store.set(key(world.rank), std::vector<uint8_t>(own.begin(), own.end()));
  std::vector<std::string> hosts;
  for (int rank = 0; world.rank == 0 && rank < world.world_size; ++rank) {
    const std::vector<uint8_t> bytes = store.get(key(rank));
    const std::string host(bytes.begin(), bytes.end());
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

/// Of the files that a run reads, by their paths.
std::map<std::string, std::string> fingerprints_of(const config::PretrainOptions& options,
                                                   const data::Tokenizer* tokenizer) {
  std::map<std::string, std::string> fingerprints;
  const auto add = [&](const std::string& path) { fingerprints.emplace(path, file_fingerprint(path)); };
  if (tokenizer != nullptr && tokenizer->file()) add(tokenizer->file()->string());
  if (options.synthetic_data) return fingerprints;
  for (const data::WeightedPrefix& part : data::parse_input(options.input_dir)) {
    add(part.prefix + ".bin");
    add(part.prefix + ".idx");
  }
  return fingerprints;
}

/// The run has failed already: a record that cannot be written does not hide why.
void note_failure(RunRecord& record, const std::exception_ptr& thrown) noexcept {
  try {
    record.finish("failed", failure_of(thrown).sentence);
  } catch (...) {
  }
}

int train(const CommandContext& context, const comm::World& world, const config::PretrainCommand& command) {
  const config::PretrainOptions& options = command.options;
  const std::unique_ptr<data::Tokenizer> tokenizer = make_tokenizer(options);
  const config::ModelConfig model = model_of(options, tokenizer.get());
  std::vector<std::string> notes = command.notes;
  if (command.run.input_dir) {
    const auto more = data::check_tokenizer_of_input(*command.run.input_dir, tokenizer.get());
    notes.insert(notes.end(), more.begin(), more.end());
  }
  if (options.device != "cpu") tensor::memory_stats(c10::Device(c10::kCUDA, 0));  // throws without CUDA
  prepare_output(options);
  set_threads(context, options);
  tensor::install_cpu_allocator();

  outlive_reader();
  const StopSignals signals;
  RunLog log(context, options, world.rank);
  for (const std::string& note : notes) log.line(note);
  const c10::intrusive_ptr<c10d::Store> store = comm::connect_store(
      world, options.dist_timeout,
      {.braid_version = std::string(kVersion), .report = [&](const std::string& line) { log.line(line); }});
  comm::handshake(*store, world,
                  {.braid_version = std::string(kVersion), .config_fingerprint = fingerprint(options, model)},
                  options.dist_timeout);
  const std::vector<std::string> hosts = gather_hosts(*store, world);
  RunReports reports(context, options, model, world.rank);
  for (const std::string& note : reports.describe()) log.line(note);
  std::optional<RunRecord> record;
  if (world.rank == 0) {
    record.emplace(RunFacts{.options = options,
                            .run = command.run,
                            .model = model,
                            .world = world,
                            .hosts = hosts,
                            .fingerprints = fingerprints_of(options, tokenizer.get()),
                            .cores = context.cores});
  }
  const train::Reporter reporter = {.line = [&](const std::string& line) { log.line(line); },
                                    .entry =
                                        [&](const report::LogEntry& entry) {
                                          log.entry(entry);
                                          reports.add(entry);
                                          for (const report::Metric& metric : entry.metrics) {
                                            if (record && metric.key == "eval_loss")
                                              record->note_loss("eval", entry.global_step, metric.value);
                                          }
                                        },
                                    .step =
                                        [&](const report::StepMetrics& step, int64_t max_steps) {
                                          log.step(step, max_steps);
                                          if (record) record->note_loss("train", step.global_step, step.loss);
                                        }};
  try {
    const train::PretrainSummary summary =
        train::pretrain({.options = command.run,
                         .model = model,
                         .world = world,
                         .store = store,
                         .gloo_interface = lookup(context, "GLOO_SOCKET_IFNAME").value_or(""),
                         .reporter = reporter,
                         .stop_requested = [&] { return signals.seen().has_value(); }});
    if (world.rank == 0) export_tokenizer(tokenizer.get(), options);
    reports.finish();
    const std::string steps = cat("step ", summary.steps, " of ", std::max<int64_t>(options.max_steps, 0));
    const std::optional<int> signal = signals.seen();
    const std::string cause = signal ? signal_name(*signal) : "a signal to another rank";
    if (summary.stopped) log.line(cat("stopped by ", cause, " after ", steps));
    if (record) {
      record->finish(summary.stopped ? "stopped" : "finished",
                     cat(summary.stopped ? cat("by ", cause, " after ") : "after ", steps));
    }
    return summary.stopped ? kSignalExitCode + signal.value_or(SIGTERM) : 0;
  } catch (...) {
    if (record) note_failure(*record, std::current_exception());
    throw;
  }
}

}  // namespace

int pretrain_command(const CommandContext& context) {
  for (const std::string& word : context.arguments) {
    if (word == "--help" || word == "-h") {
      context.out << config::pretrain_table().help();
      return 0;
    }
    if (word == "--help_markdown") {
      context.out << config::options_markdown();
      return 0;
    }
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
