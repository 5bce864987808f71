#include "braid/cli/schedule_options.h"

#include <cmath>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/schedule_times.h"
#include "braid/config/text_file.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/weights_in_hand.h"

namespace braid::cli {
namespace {

using S = ScheduleOptions;

constexpr std::string_view kFilePrefix = "csv:";

// Leaves room for sums over many microbatches in kMemoryUnit-ths.
constexpr double kMostMemory = 1e12;

int64_t memory_units(double amount, int32_t chunks) {
  return static_cast<int64_t>(std::llround(amount * static_cast<double>(kMemoryUnit) / chunks));
}

schedule::StageMemory parse_memory(const std::string& text, int32_t chunks) {
  std::vector<int64_t> units;
  for (const std::string& piece : split(text, ',')) {
    const auto number = parse_double(trim(piece));
    require<ConfigError>(
        number && *number >= 0 && *number <= kMostMemory,
        "--memory must be 2 numbers between 0 and 1e12, separated by a comma, as in 1,0.9; got '", text, "'");
    units.push_back(memory_units(*number, chunks));
  }
  require<ConfigError>(units.size() == 2, "--memory must be 2 numbers (from F to I, from I to W), got ",
                       units.size(), ": '", text, "'");
  return {.forward_to_backward = units[0], .backward_to_weight = units[1]};
}

std::string_view chunk_noun(const schedule::PipelineShape& shape) {
  return shape.chunks_per_rank == 1 ? " chunk" : " chunks";
}

bool is_within(const schedule::PipelineShape& shape, const SizeLimit& limit) {
  // Factors are below 2^31, 2^31 and 2^28, so divide.
  const int64_t cells_per_chunk = int64_t{shape.ranks} * shape.microbatches;
  return cells_per_chunk <= limit.cells / shape.chunks_per_rank;
}

std::string text_of_file(std::string_view mode) {
  const std::string path(mode.substr(kFilePrefix.size()));
  require<ConfigError>(!path.empty(), "--mode csv: needs a file name, as in csv:schedule.csv");
  try {
    return config::read_text_file(path);
  } catch (const ConfigError& error) {
    throw ConfigError(cat("--mode ", mode, ": ", error.what()));
  }
}

schedule::Schedule schedule_of_file(const ScheduleOptions& options, std::string_view mode,
                                    const SizeLimit& limit) {
  const std::string path(mode.substr(kFilePrefix.size()));
  schedule::Schedule schedule = schedule::from_csv(text_of_file(mode), path);
  const schedule::PipelineShape& shape = schedule.shape;
  require<ConfigError>(is_within(shape, limit), path, ": ", shape.ranks, " ranks x ", shape.microbatches,
                       " microbatches x ", shape.chunks_per_rank, chunk_noun(shape), " is too large to ",
                       limit.purpose, ": the product must be at most ", limit.cells);
  schedule::check(schedule);
  if (options.memory_limit) {
    schedule::require_within(schedule, workload_of(options, shape).memory,
                             memory_units(*options.memory_limit, 1));
  }
  return schedule;
}

}  // namespace

void add_pipeline_options(ScheduleTable& table) {
  table.add("pp", &S::pp,
            {.help = "Pipeline ranks.", .range = {.at_least = 1}, .aliases = {"pipeline_parallel_degree"}});
  table.add("micro", &S::micro,
            {.help = "Microbatches per step.",
             .range = {.at_least = 1},
             .aliases = {"gradient_accumulation_steps"}});
}

void add_schedule_options(ScheduleTable& table, std::string_view several_modes) {
  table.group("Schedule (the option names of braid pretrain are accepted too)");
  table.add(
      "mode", &S::mode,
      {.help = "One of " + schedule::mode_names() +
               "; or csv:FILE, a schedule in the CSV format of PyTorch's pipelining, which determines the "
               "ranks, microbatches and chunks." +
               std::string(several_modes),
       .aliases = {"pipeline_schedule_mode"}});
  add_pipeline_options(table);
  table.add("chunks", &S::chunks,
            {.help = "Chunks of the model per rank. Unset: the mode's fixed number, 2 for VPP, else 1.",
             .range = {.at_least = 1, .at_most = 1024},
             .aliases = {"virtual_pp_degree"}});
}

void add_workload_options(ScheduleTable& table) {
  table.group("Workload");
  table.add(
      "times", &S::times,
      {.help = "The time that all of a rank's layers take for F, I (input gradient) and W (weight gradient) "
               "of one microbatch, and that a message takes, in any unit: F,I,W or F,I,W,MESSAGE; or "
               "file:PATH, per-stage times as written by braid pretrain --profile_steps. A fused backward "
               "takes I + W. Unset: 1,1,1,0.",
       .aliases = {"schedule_times"}});
  table.add(
      "memory", &S::memory,
      {.help = "The memory that all of a rank's layers keep for one microbatch from F to I, and from I to W, "
               "in any unit, separated by a comma. Unset: 1,1."});
  table.add(
      "memory_limit", &S::memory_limit,
      {.help = "The most that a rank may keep, in the unit of --memory: auto and ZBVPP stay within it, other "
               "modes are rejected if they exceed it. Unset: no limit.",
       .range = {.at_least = 0, .at_most = 1e15},
       .aliases = {"schedule_memory_limit"}});
}

void add_exchange_options(ScheduleTable& table) {
  table.add(
      "mp_exchange", &S::mp_exchange,
      {.help =
           "The parts of F and I in which a rank waits for its tensor-parallel group: F,I, in the unit of "
           "their times. A fused backward computes its weight gradients behind its part; schedules "
           "that split the backward give F and I a W in hand. Unset: 0,0, or what the file of times "
           "says."});
  table.add("weights_in_hand", &S::weights_in_hand,
            {.help = "Run a W behind exchanges where that pays. 0: F and I wait idly, to compare."});
}

int32_t chunks_of(const ScheduleOptions& options, std::string_view mode) {
  if (options.chunks) return *options.chunks;
  return schedule::mode_of(mode).chunks.value_or(mode == "VPP" ? 2 : 1);
}

schedule::Workload workload_of(const ScheduleOptions& options, const schedule::PipelineShape& shape) {
  const int32_t chunks = shape.chunks_per_rank;
  schedule::Workload workload = {
      .durations =
          config::parse_schedule_times(options.times.value_or("1,1,1,0"), shape, options.times_option),
      .memory = {.stages = {parse_memory(options.memory.value_or("1,1"), chunks)}, .scale = kMemoryUnit}};
  if (options.mp_exchange) {
    schedule::set_exchanges(workload.durations, *options.mp_exchange, chunks, "--mp_exchange");
  }
  if (options.memory_limit) workload.memory_limit = memory_units(*options.memory_limit, 1);
  return workload;
}

schedule::Schedule schedule_of(const ScheduleOptions& options, std::string_view mode,
                               const SizeLimit& limit) {
  if (mode.starts_with(kFilePrefix)) return schedule_of_file(options, mode, limit);
  const schedule::PipelineShape shape = {
      .ranks = options.pp, .chunks_per_rank = chunks_of(options, mode), .microbatches = options.micro};
  require<ConfigError>(is_within(shape, limit), "--pp ", shape.ranks, " x --micro ", shape.microbatches,
                       " x ", shape.chunks_per_rank, chunk_noun(shape), " is too large to ", limit.purpose,
                       ": the product must be at most ", limit.cells);
  schedule::Schedule schedule = schedule::generate(mode, shape, workload_of(options, shape));
  schedule::check(schedule);
  return schedule;
}

schedule::Schedule with_weights_in_hand(const ScheduleOptions& options, schedule::Schedule schedule,
                                        const schedule::Durations& durations) {
  if (!options.weights_in_hand) return schedule;
  return schedule::place_weights_in_hand(std::move(schedule), durations);
}

std::vector<double> peaks_of(const schedule::Schedule& schedule, const schedule::Workload& workload) {
  std::vector<double> peaks;
  for (const int64_t units : schedule::peak_memory(schedule, workload.memory)) {
    peaks.push_back(static_cast<double>(units) / static_cast<double>(kMemoryUnit));
  }
  return peaks;
}

}  // namespace braid::cli
