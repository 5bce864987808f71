// `braid schedule run`: schedules on ranks that sleep instead of computing.
#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/launch_command.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/schedule_command.h"
#include "braid/cli/schedule_options.h"
#include "braid/cli/version.h"
#include "braid/comm/store.h"
#include "braid/comm/world.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/simulate.h"
#include "braid/tensor/memory.h"
#include "braid/train/emulate.h"

namespace braid::cli {
namespace {

using S = ScheduleOptions;

ScheduleTable run_table() {
  ScheduleTable table(
      {.command = "braid schedule run",
       .usage = "--emulate F,I,W[,MESSAGE] [--flag value]...",
       .summary = "Runs schedules with the real executor on real processes that exchange real messages, "
                  "but sleep for each action's duration instead of computing, so that many ranks fit on "
                  "few cores. Starts --pp processes, unless it already is one of that many ranks."});
  add_schedule_options(table,
                       " Modes separated by commas run one after another; all runs every mode that "
                       "supports the pipeline.");
  table.add(
      "emulate", &S::emulate,
      {.help = "Seconds that all of a rank's layers take for F, I (input gradient) and W (weight gradient) "
               "of one microbatch, and that a message takes: F,I,W or F,I,W,MESSAGE. Required."});
  table.add(
      "memory", &S::memory,
      {.help = "Bytes that all of a rank's layers keep for one microbatch from F to I, and from I to W, "
               "separated by a comma; they are allocated but not touched. Unset: 0,0."});
  add_exchange_options(table);
  table.add("enable_send_recv_overlap", &S::enable_send_recv_overlap, {.help = "Post receives early."});
  table.add("message_bytes", &S::message_bytes,
            {.help = "Size of a message.", .unit = "bytes", .range = {.at_least = 8, .at_most = 1 << 30}});
  table.add("steps", &S::steps,
            {.help = "Steps per schedule; times are medians.", .unit = "steps", .range = {.at_least = 1}});
  table.add(
      "grace", &S::grace,
      {.help =
           "A delay up to this share of the action that it delays is treated as timer noise and not passed "
           "on; a longer one counts. Unset: 0.25.",
       .range = {.at_least = 0, .at_most = 1e6}});
  table.group("Output");
  table.add("json", &S::json, {.help = "Print JSON instead."});
  return table;
}

// Far more than the processes that a machine can run.
constexpr SizeLimit kLimit = {.cells = int64_t{1} << 22, .purpose = "run"};

train::EmulatedSchedule emulated(ScheduleOptions options, std::string_view mode) {
  options.times = options.emulate;
  options.times_option = "--emulate";
  options.memory = options.memory.value_or("0,0");
  const schedule::Schedule plain = schedule_of(options, mode, kLimit);
  schedule::Workload workload = workload_of(options, plain.shape);
  const schedule::Schedule compute = with_weights_in_hand(options, plain, workload.durations);
  for (schedule::StageMemory& stage : workload.memory.stages) {
    stage.forward_to_backward /= kMemoryUnit;
    stage.backward_to_weight /= kMemoryUnit;
  }
  workload.memory.scale = 1;
  return {.compute = compute, .durations = workload.durations, .memory_bytes = workload.memory};
}

std::vector<train::EmulatedSchedule> all_modes(const ScheduleOptions& options,
                                               std::vector<std::string>& skipped) {
  std::vector<train::EmulatedSchedule> schedules;
  for (const schedule::Mode& mode : schedule::modes()) {
    try {
      schedules.push_back(emulated(options, mode.name));
    } catch (const ConfigError& error) {
      skipped.push_back(error.what());
    }
  }
  require<ConfigError>(!schedules.empty(), "--mode all: no mode supports this pipeline: ", skipped.front());
  return schedules;
}

/// The schedules that --mode names, all on the same number of ranks; `skipped` gets the reasons why modes of
/// `all` were skipped.
std::vector<train::EmulatedSchedule> emulated_schedules(const ScheduleOptions& options,
                                                        std::vector<std::string>& skipped) {
  require<ConfigError>(!options.emulate.empty(),
                       "--emulate is required: seconds of F, I, W and a message, as in 0.02,0.02,0.02,0.001");
  if (options.mode == "all") return all_modes(options, skipped);
  std::vector<train::EmulatedSchedule> schedules;
  for (const std::string& piece : split(options.mode, ',')) {
    schedules.push_back(emulated(options, trim(piece)));
    const int32_t ranks = schedules.front().compute.shape.ranks;
    const schedule::Schedule& last = schedules.back().compute;
    require<ConfigError>(
        last.shape.ranks == ranks, "--mode: ", schedules.front().compute.name, " has ", ranks, " ranks, but ",
        last.name, " has ", last.shape.ranks,
        ": schedules that run together must have the same number of ranks (--pp, or the rows of a file)");
  }
  return schedules;
}

/// Starts this command once per rank.
int launch_ranks(const CommandContext& context, int32_t ranks) {
  launch::LaunchOptions launch = {.nproc_per_node = ranks, .command = {"schedule", "run"}};
  launch.command.insert(launch.command.end(), context.arguments.begin(), context.arguments.end());
  return launch::run_launch(launch, launch_context(context));
}

nlohmann::ordered_json to_json(const train::EmulationResult& result, const schedule::Simulation& planned,
                               double grace, int64_t weights_in_hand) {
  return {{"schedule", result.name},
          {"step_time", result.step_time.count()},
          {"planned_step_time", planned.step_time.count()},
          {"bubble_rate", result.bubble_rate},
          {"planned_bubble_rate", planned.bubble_rate},
          {"weights_in_hand", weights_in_hand},
          {"interval_runtime", result.interval.count()},
          {"delays", result.delays.count()},
          {"noise", result.noise.count()},
          {"grace", grace},
          {"max_memory_allocated", result.max_memory_allocated}};
}

std::string memory_text(const std::vector<int64_t>& bytes) {
  std::string text;
  for (const int64_t of_rank : bytes) {
    text += (text.empty() ? "" : " / ") + bytes_text(static_cast<uint64_t>(of_rank));
  }
  return text;
}

std::string result_text(const train::EmulationResult& result, const schedule::Simulation& planned,
                        double grace, int64_t microbatches) {
  const double interval = result.interval.count();
  return cat(result.name, ": interval_runtime: ", fixed(interval, 4),
             ", interval_samples_per_second: ", fixed(static_cast<double>(microbatches) / interval, 4),
             ", interval_steps_per_second: ", fixed(1 / interval, 4),
             ", step_time: ", fixed(result.step_time.count(), 4), " (planned ",
             fixed(planned.step_time.count(), 4), "), bubble_rate: ", fixed(result.bubble_rate, 4),
             " (planned ", fixed(planned.bubble_rate, 4), "), delays: ", fixed(result.delays.count(), 4),
             ", noise: ", fixed(result.noise.count(), 4), " (grace ", brief(100 * grace, 3),
             "% of an action)",
             ", max_memory_allocated of each rank: ", memory_text(result.max_memory_allocated), "\n");
}

double grace_of(const ScheduleOptions& options) {
  return options.grace.value_or(train::EmulationOptions{}.grace);
}

int run_rank(const CommandContext& context, const ScheduleOptions& options,
             const std::vector<train::EmulatedSchedule>& schedules, const comm::World& world) {
  at::set_num_threads(1);
  tensor::install_cpu_allocator();
  const train::EmulationOptions emulation = {.steps = options.steps,
                                             .receives = options.enable_send_recv_overlap
                                                             ? schedule::ReceivePosting::kEarly
                                                             : schedule::ReceivePosting::kJustInTime,
                                             .message_numel = (options.message_bytes + 7) / 8,
                                             .grace = grace_of(options)};
  const c10::intrusive_ptr<c10d::Store> store =
      comm::connect_store(world, emulation.timeout, {.braid_version = std::string(kVersion), .report = {}});
  comm::handshake(
      *store, world,
      {.braid_version = std::string(kVersion), .config_fingerprint = run_table().print_back(options)},
      emulation.timeout);
  const std::vector<train::EmulationResult> results =
      train::emulate(schedules, emulation, world, store, lookup(context, "GLOO_SOCKET_IFNAME").value_or(""));
  if (world.rank != 0) return 0;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    const schedule::Simulation planned = schedule::simulate(schedules[i].compute, schedules[i].durations);
    if (options.json) {
      all.push_back(
          to_json(results[i], planned, emulation.grace, count_weights_in_hand(schedules[i].compute)));
    } else {
      context.out << result_text(results[i], planned, emulation.grace,
                                 schedules[i].compute.shape.microbatches);
    }
  }
  if (options.json) context.out << all.dump() << "\n";
  return 0;
}

}  // namespace

int schedule_run_command(const CommandContext& context) {
  const auto parsed = parse_command(context, run_table());
  if (!parsed) return 0;
  const ScheduleOptions& options = parsed->options;
  std::vector<std::string> skipped;
  const std::vector<train::EmulatedSchedule> schedules = emulated_schedules(options, skipped);
  const int32_t ranks = schedules.front().compute.shape.ranks;  // of the file, for csv:FILE
  const comm::World world =
      comm::world_from_environment([&](std::string_view name) { return lookup(context, name); });
  if (world.world_size == 1) {
    for (const std::string& reason : skipped) context.err << "skipped: " << reason << "\n";
    if (ranks > 1) return launch_ranks(context, ranks);
  }
  return run_rank(context, options, schedules, world);
}

}  // namespace braid::cli
