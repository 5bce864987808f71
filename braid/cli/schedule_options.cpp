#include "braid/cli/schedule_options.h"

#include <array>
#include <cmath>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/output_file.h"
#include "braid/config/schedule_times.h"
#include "braid/config/text_file.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/passes/weights_in_hand.h"

namespace braid::cli {
namespace {

using S = ScheduleOptions;

constexpr std::string_view kFilePrefix = "csv:";

// Leaves room for sums over many microbatches in kMemoryUnit-ths.
constexpr double kMostMemory = 1e12;
constexpr double kMostTime = 1e12;

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

// The gather and the reduction of all of a rank's segments.
std::array<double, 2> sharding_exchange_of(const ScheduleOptions& options) {
  if (!options.sharding_exchange) return {0, 0};
  const std::vector<std::string> pieces = split(*options.sharding_exchange, ',');
  require<ConfigError>(pieces.size() == 2,
                       "--sharding_exchange must be 2 numbers (all gathers, all reductions), got ",
                       pieces.size(), ": '", *options.sharding_exchange, "'");
  std::array<double, 2> times{};
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::optional<double> number = parse_double(trim(pieces[i]));
    require<ConfigError>(number.has_value(),
                         "--sharding_exchange must be 2 numbers (all gathers, all reductions), as in 0.5,1; "
                         "got '",
                         *options.sharding_exchange, "'");
    require<ConfigError>(
        *number >= 0 && *number <= kMostTime,
        "--sharding_exchange must be a time between 0 and 1e12, in the unit of --times; got ", *number);
    times[i] = *number;
  }
  return times;
}

constexpr int32_t kDefaultSegments = 4;

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

void add_data_options(ScheduleTable& table) {
  table.group("Data ranks (those that run the same schedule on other microbatches)");
  table.add("sharding", &S::sharding,
            {.help = "What the ranks of a sharding axis divide, as in braid pretrain: stage0 nothing, stage1 "
                     "optimizer states, stage2 also gradients, stage3 also weights. Unset: there is no such "
                     "axis.",
             .choices = {"stage0", "stage1", "stage2", "stage3"}});
  table.add("sharding_exchange", &S::sharding_exchange,
            {.help = "The time that gathering all of a rank's weights and reducing all of its gradients over "
                     "the sharding axis takes: GATHER,REDUCE, in the unit of --times. Unset: 0,0."});
  table.add("sharding_reduce", &S::sharding_reduce,
            {.help = "Reduce gradients once a step or after each microbatch. Unset: after each microbatch "
                     "with stage2 and stage3.",
             .choices = {"step", "microbatch"}});
  table.add("dp_exchange", &S::dp_exchange,
            {.help = "There is a dp axis too, and reducing all of a rank's gradients over it takes this "
                     "time. Unset: there is no such axis.",
             .range = {.at_least = 0, .at_most = kMostTime}});
  table.add("segments", &S::segments,
            {.help = "Segments of each chunk, which are gathered and reduced one at a time. Unset: 4.",
             .range = {.at_least = 1, .at_most = 256}});
  table.add("update_time", &S::update_time,
            {.help = "The time that updating all of a rank's weights takes. Unset: 0.",
             .range = {.at_least = 0, .at_most = kMostTime}});
}

void add_output_file_options(ScheduleTable& table, std::string_view help) {
  table.add("out", &S::out, {.help = std::string(help)});
  table.add("overwrite", &S::overwrite, {.help = "Replace an existing file."});
}

void require_new_output(const ScheduleOptions& options) {
  require_new_file("--out", options.out, options.overwrite);
}

bool has_data_axes(const ScheduleOptions& options) {
  const bool is_on = options.sharding || options.dp_exchange;
  for (const auto& [is_given, name] :
       {std::pair(options.sharding_exchange.has_value(), "--sharding_exchange"),
        std::pair(options.sharding_reduce.has_value(), "--sharding_reduce")}) {
    require<ConfigError>(!is_given || options.sharding, name,
                         " applies to a sharding axis: pass --sharding stage1, or omit it");
  }
  for (const auto& [is_given, name] : {std::pair(options.segments.has_value(), "--segments"),
                                       std::pair(options.update_time.has_value(), "--update_time")}) {
    require<ConfigError>(!is_given || is_on, name,
                         " applies to data ranks: pass --sharding or --dp_exchange, or omit it");
  }
  return is_on;
}

schedule::DataAxes data_axes_of(const ScheduleOptions& options, const schedule::PipelineShape& shape) {
  if (!has_data_axes(options)) return {};
  const int32_t stage = options.sharding ? options.sharding->back() - '0' : 0;
  const bool is_given = options.sharding_reduce.has_value();
  return {.has_sharding = options.sharding.has_value(),
          .has_dp = options.dp_exchange.has_value(),
          .sharding_stage = stage,
          .reduces_each_microbatch = is_given ? *options.sharding_reduce == "microbatch" : stage >= 2,
          .segments =
              std::vector(static_cast<size_t>(shape.stages()), options.segments.value_or(kDefaultSegments))};
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
  if (!options.weights_in_hand || !durations.has_exchanges()) return schedule;
  return schedule::place_weights_in_hand(std::move(schedule), durations);
}

void add_data_times(const ScheduleOptions& options, const schedule::PipelineShape& shape,
                    schedule::Durations& durations) {
  if (!has_data_axes(options)) return;
  using schedule::Seconds;
  const int32_t segments = options.segments.value_or(kDefaultSegments);
  const auto [gather, reduce] = sharding_exchange_of(options);
  const double parts = static_cast<double>(segments) * shape.chunks_per_rank;
  const schedule::SegmentTimes times = {.share = 1.0 / segments,
                                        .gather = Seconds(gather / parts),
                                        .reduce = Seconds(reduce / parts),
                                        .reduce_dp = Seconds(options.dp_exchange.value_or(0) / parts)};
  durations.segments.assign(static_cast<size_t>(shape.stages()),
                            std::vector(static_cast<size_t>(segments), times));
  for (schedule::StageTimes& stage : durations.stages) {
    stage.update = Seconds(options.update_time.value_or(0) / shape.chunks_per_rank);
  }
}

schedule::Schedule with_data_axes(const ScheduleOptions& options, const schedule::Schedule& compute) {
  if (!has_data_axes(options)) return compute;
  return schedule::lower(compute, {.data = data_axes_of(options, compute.shape)});
}

std::vector<double> peaks_of(const schedule::Schedule& schedule, const schedule::Workload& workload) {
  std::vector<double> peaks;
  for (const int64_t units : schedule::peak_memory(schedule, workload.memory)) {
    peaks.push_back(static_cast<double>(units) / static_cast<double>(kMemoryUnit));
  }
  return peaks;
}

}  // namespace braid::cli
