#include "braid/cli/schedule_command.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/command_group.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/terminal.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/draw_text.h"
#include "braid/schedule/generate.h"
#include "braid/schedule/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::cli {
namespace {

struct ShowOptions {
  std::string mode = "1F1B";
  int32_t pp = 4;
  int32_t micro = 8;
  bool enable_send_recv_overlap = false;
  std::optional<std::string> times{};
  bool actions = false;
  bool csv = false;
  std::optional<int32_t> columns{};
};

// More than anybody looks at, and few enough that every pass takes well under a second.
constexpr int64_t kMostCells = int64_t{1} << 18;

std::string mode_names() {
  std::string text;
  for (const std::string& mode : schedule::schedule_modes()) text += (text.empty() ? "" : ", ") + mode;
  return text;
}

config::OptionTable<ShowOptions> show_table() {
  using S = ShowOptions;
  config::OptionTable<S> table(
      {.command = "braid schedule show",
       .usage = "[--flag value]...",
       .summary = "Draws what every pipeline rank does in one step, to scale, and tells the step's time and "
                  "bubble, the activations that each rank keeps and the messages that it sends."});
  table.group("Schedule (the names of braid pretrain are taken too)");
  table.add("mode", &S::mode,
            {.help = "One of " + mode_names() + ".", .aliases = {"pipeline_schedule_mode"}});
  table.add("pp", &S::pp,
            {.help = "Pipeline ranks.", .range = {.at_least = 1}, .aliases = {"pipeline_parallel_degree"}});
  table.add("micro", &S::micro,
            {.help = "Microbatches of a step.",
             .range = {.at_least = 1},
             .aliases = {"gradient_accumulation_steps"}});
  table.add("enable_send_recv_overlap", &S::enable_send_recv_overlap,
            {.help = "Post receives early, as braid pretrain does with this option; seen with --actions."});
  table.group("Timing");
  table.add(
      "times", &S::times,
      {.help = "What a stage takes for F, I (input gradient), W (weight gradient) of one microbatch, and "
               "what a message takes, in any unit, with commas between: F,I,W or F,I,W,MESSAGE. A fused "
               "backward takes I + W. The drawing keeps its equal slots. Unset: 1,1,1,0."});
  table.group("Output");
  table.add(
      "actions", &S::actions,
      {.help = "List each rank's actions instead, with the messages and waits that the executor runs."});
  table.add("csv", &S::csv,
            {.help = "Print the compute actions as CSV instead, in the format of PyTorch's pipelining."});
  table.add("columns", &S::columns,
            {.help = "Width of the drawing. Unset: the terminal's, or 100.", .range = {.at_least = 40}});
  return table;
}

schedule::Durations durations_of(const std::string& times) {
  std::vector<double> numbers;
  for (const std::string& piece : split(times, ',')) {
    const auto number = parse_double(trim(piece));
    const bool is_time = number && std::isfinite(*number) && *number >= 0;
    require<ConfigError>(is_time,
                         "--times must be 3 or 4 numbers >= 0 with commas between, as in 1,1.2,0.8 or "
                         "1,1.2,0.8,0.1; got '",
                         times, "'");
    numbers.push_back(*number);
  }
  require<ConfigError>(numbers.size() == 3 || numbers.size() == 4,
                       "--times must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got ", numbers.size(), ": '",
                       times, "'");
  numbers.resize(4);
  using schedule::Seconds;
  return {.stages = {{.forward = Seconds(numbers[0]),
                      .backward_input = Seconds(numbers[1]),
                      .backward_weight = Seconds(numbers[2])}},
          .communication = Seconds(numbers[3])};
}

std::string timing_text(const schedule::Durations& durations, const schedule::Simulation& simulation) {
  const schedule::StageTimes& stage = durations.stages.front();
  return cat("step time ", simulation.step_time.count(), ", bubble ", fixed(100 * simulation.bubble_rate, 1),
             "% with F ", stage.forward.count(), ", I ", stage.backward_input.count(), ", W ",
             stage.backward_weight.count(), ", message ", durations.communication.count(), "\n");
}

std::string message_text(const schedule::CheckReport& report) {
  if (report.messages == 0) return "no messages\n";
  const auto& sends = report.peak_outstanding_sends;
  return cat(report.messages, " messages a step, at most ", *std::max_element(sends.begin(), sends.end()),
             " of a rank under way at once\n");
}

int show_command(const CommandContext& context) {
  const auto parsed = parse_command(context, show_table());
  if (!parsed) return 0;
  const ShowOptions& options = parsed->options;
  require<ConfigError>(!options.actions || !options.csv, "--actions and --csv are two outputs; give one");
  require<ConfigError>(!(options.actions || options.csv) || !options.columns,
                       "--columns is for the drawing, which --actions and --csv replace");
  require<ConfigError>(!options.csv || !options.times,
                       "--times changes nothing in CSV; leave it or --csv out");
  require<ConfigError>(!options.enable_send_recv_overlap || options.actions,
                       "--enable_send_recv_overlap shows with --actions only: the drawing has no receives");
  require<ConfigError>(int64_t{options.pp} * options.micro <= kMostCells, "--pp ", options.pp, " x --micro ",
                       options.micro, " is too much to show; keep the product at ", kMostCells, " or less");
  const schedule::Durations durations = durations_of(options.times.value_or("1,1,1,0"));

  const schedule::Schedule compute =
      schedule::generate(options.mode, {.ranks = options.pp, .microbatches = options.micro});
  using schedule::ReceivePosting;
  const schedule::Schedule lowered = schedule::lower(
      compute,
      {.receives = options.enable_send_recv_overlap ? ReceivePosting::kEarly : ReceivePosting::kJustInTime});
  if (options.csv) {
    context.out << schedule::to_csv(compute);
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
  // The drawing tells the same for equal slots.
  if (options.times || options.actions) {
    context.out << timing_text(durations, schedule::simulate(lowered, durations));
  }
  context.out << message_text(schedule::check(lowered));
  return 0;
}

}  // namespace

int schedule_command(const CommandContext& context) {
  return run_group(
      context, {.summary = "Pipeline schedules as data: what every rank does in one step.",
                .commands = {{"show", "draw a schedule, list its actions, or print it as CSV", show_command}},
                .examples = {"braid schedule show --mode 1F1B --pp 4 --micro 8 --times 1,1,1,0.1"}});
}

}  // namespace braid::cli
