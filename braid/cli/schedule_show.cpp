#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/schedule_command.h"
#include "braid/cli/schedule_options.h"
#include "braid/cli/terminal.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/draw_text.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::cli {
namespace {

// More than anyone reads, and few enough that every pass takes well under a second.
constexpr int64_t kMostCells = int64_t{1} << 18;

ScheduleTable show_table() {
  using S = ScheduleOptions;
  ScheduleTable table(
      {.command = "braid schedule show",
       .usage = "[--flag value]...",
       .summary =
           "Draws the actions of every pipeline rank in one step, to scale, and prints the step's time and "
           "bubble, the activations that each rank keeps and the messages that it sends."});
  add_schedule_options(table);
  table.add("enable_send_recv_overlap", &S::enable_send_recv_overlap,
            {.help = "Post receives early, as braid pretrain does with this option. Requires --actions."});
  add_workload_options(table);
  add_exchange_options(table);
  add_data_options(table);
  table.group("Output");
  table.add(
      "actions", &S::actions,
      {.help = "List each rank's actions instead, with the messages and waits that the executor runs."});
  table.add("csv", &S::csv,
            {.help = "Print the compute actions as CSV instead, in the format of PyTorch's pipelining."});
  table.add(
      "json", &S::json,
      {.help = "Print everything as JSON instead: the actions of each rank (with --actions those that the "
               "executor runs), the step's time and bubble, what ranks keep and send."});
  table.add("columns", &S::columns,
            {.help = "Width of the drawing. Unset: the terminal's, or 100.", .range = {.at_least = 40}});
  return table;
}

std::string exchange_text(const schedule::StageTimes& stage) {
  if (!stage.has_exchange()) return "";
  return cat(", of which F waits ", stage.forward_exchange.count(), " for its mp group and I ",
             stage.backward_exchange.count());
}

std::string timing_text(const schedule::Durations& durations, const schedule::Simulation& simulation,
                        bool is_shared) {
  const std::string result = cat("step time ", brief(simulation.step_time.count(), 9), ", bubble ",
                                 fixed(100 * simulation.bubble_rate, 1), "% with ");
  if (durations.stages.size() > 1) return result + "per-stage times\n";
  const schedule::StageTimes& stage = durations.stages.front();
  return cat(result, "F ", stage.forward.count(), ", I ", stage.backward_input.count(), ", W ",
             stage.backward_weight.count(), is_shared ? " per chunk" : "", ", message ",
             durations.communication.count(), exchange_text(stage), "\n");
}

std::string message_text(const schedule::CheckReport& report) {
  if (report.messages == 0) return "no messages\n";
  const auto& sends = report.peak_outstanding_sends;
  return cat(report.messages, " messages per step, at most ", *std::max_element(sends.begin(), sends.end()),
             " of one rank in flight\n");
}

nlohmann::ordered_json to_json(const schedule::Schedule& shown, const schedule::Simulation& simulation,
                               const schedule::CheckReport& report) {
  nlohmann::ordered_json actions = nlohmann::ordered_json::array();
  for (const std::vector<schedule::Action>& rank : shown.ranks) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const schedule::Action& action : rank) list.push_back(schedule::to_string(action));
    actions.push_back(std::move(list));
  }
  return {{"schedule", shown.name},
          {"pp", shown.shape.ranks},
          {"micro", shown.shape.microbatches},
          {"chunks", shown.shape.chunks_per_rank},
          {"step_time", simulation.step_time.count()},
          {"bubble_rate", simulation.bubble_rate},
          {"peak_live_activations", report.peak_live_activations},
          {"messages", report.messages},
          {"peak_outstanding_sends", report.peak_outstanding_sends},
          {"actions", std::move(actions)}};
}

}  // namespace

int schedule_show_command(const CommandContext& context) {
  const auto parsed = parse_command(context, show_table());
  if (!parsed) return 0;
  const ScheduleOptions& options = parsed->options;
  require<ConfigError>(!options.actions || !options.csv, "--actions and --csv are mutually exclusive");
  require<ConfigError>(!options.json || !options.csv, "--json and --csv are mutually exclusive");
  require<ConfigError>(!(options.actions || options.csv || options.json) || !options.columns,
                       "--columns applies to the drawing, which --actions, --csv and --json replace");
  require<ConfigError>(!options.csv || !options.times,
                       "--times has no effect on CSV output; omit one of them");
  require<ConfigError>(!options.enable_send_recv_overlap || options.actions,
                       "--enable_send_recv_overlap requires --actions: the drawing has no receives");
  require<ConfigError>(
      !options.csv || !options.mp_exchange,
      "--mp_exchange has no effect on CSV output, which has no cells for a W in hand; omit one of "
      "them");
  require<ConfigError>(
      !has_data_axes(options) || options.actions,
      "--sharding and --dp_exchange require --actions: the drawing has no exchanges, but that "
      "of braid schedule draw has");
  const schedule::Schedule plain =
      schedule_of(options, options.mode, {.cells = kMostCells, .purpose = "show"});
  schedule::Durations durations = workload_of(options, plain.shape).durations;
  const schedule::Schedule compute = with_weights_in_hand(options, plain, durations);
  add_data_times(options, plain.shape, durations);
  using schedule::ReceivePosting;
  const schedule::Schedule lowered = schedule::lower(
      compute,
      {.receives = options.enable_send_recv_overlap ? ReceivePosting::kEarly : ReceivePosting::kJustInTime,
       .data = data_axes_of(options, plain.shape)});
  if (options.json) {
    const schedule::Schedule& shown = options.actions ? lowered : compute;
    context.out << to_json(shown, schedule::simulate(lowered, durations), schedule::check(lowered)).dump()
                << "\n";
    return 0;
  }
  if (options.csv) {
    context.out << schedule::to_csv(plain);
    return 0;
  }
  if (options.actions) {
    context.out << schedule::to_string(lowered);
  } else {
    const bool coloured = context.out_columns && allows_colours(context.environment);
    const int64_t columns = options.columns.value_or(
        std::clamp<int64_t>(context.out_columns.value_or(100), 40, std::numeric_limits<int32_t>::max()));
    context.out << schedule::draw_text(
        compute, {.colours = coloured ? schedule::Colours::kAnsi : schedule::Colours::kNone,
                  .columns = static_cast<int32_t>(columns)});
  }
  // The drawing contains the same for equal slots.
  if (options.times || options.mp_exchange || options.actions) {
    context.out << timing_text(durations, schedule::simulate(lowered, durations),
                               compute.shape.chunks_per_rank > 1);
  }
  context.out << message_text(schedule::check(lowered));
  return 0;
}

}  // namespace braid::cli
