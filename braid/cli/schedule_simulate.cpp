// `braid schedule simulate` and `braid schedule compare`.
#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/checkpoint/file.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/schedule_command.h"
#include "braid/cli/schedule_options.h"
#include "braid/report/tradeoff_plot.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"
#include "braid/schedule/step_interval.h"

namespace braid::cli {
namespace {

using S = ScheduleOptions;

// This many cells take about a minute and 10 GiB.
constexpr int64_t kMostCells = int64_t{1} << 26;
// The intervals take several times as long as the step: for this many cells some seconds.
constexpr int64_t kMostIntervalCells = int64_t{1} << 20;

struct Row {
  std::string name;
  schedule::PipelineShape shape;
  double step_time = 0;
  double longest_span = 0;
  double bubble_rate = 0;
  std::optional<double> clipped_interval;  // nothing for a schedule of too many cells
  std::optional<double> unclipped_interval;
  std::vector<double> peaks;
  int64_t weights_in_hand = 0;
  bool has_exchanges = false;
  double step_time_without = 0;  // W's in hand; of times with exchanges

  double peak() const { return *std::ranges::max_element(peaks); }
};

// The time from one step to the next, with the end of a step as training has it for `norm_use`.
std::optional<double> interval_of(const schedule::Schedule& schedule, const schedule::Workload& workload,
                                  const schedule::DataAxes& data, schedule::NormUse norm_use) {
  if (int64_t{schedule.shape.stages()} * schedule.shape.microbatches > kMostIntervalCells)
    return std::nullopt;
  const schedule::Schedule whole =
      schedule::lower(schedule, {.step_end = {.norm_use = norm_use}, .data = data});
  return schedule::step_interval(whole, workload.durations).count();
}

Row simulated(const ScheduleOptions& options, std::string_view mode) {
  schedule::Schedule schedule = schedule_of(options, mode, {.cells = kMostCells, .purpose = "simulate"});
  schedule::Workload workload = workload_of(options, schedule.shape);
  // A schedule may fill much of the memory, so it is copied only where both are needed.
  std::optional<schedule::Schedule> plain;
  if (workload.durations.has_exchanges()) plain = schedule;
  schedule = with_weights_in_hand(options, std::move(schedule), workload.durations);
  const schedule::DataAxes data = data_axes_of(options, schedule.shape);
  add_data_times(options, schedule.shape, workload.durations);
  const auto run = [&](const schedule::Schedule& compute) {
    return data.is_on() ? schedule::simulate(with_data_axes(options, compute), workload.durations)
                        : schedule::simulate(compute, workload.durations);
  };
  const schedule::Simulation simulation = run(schedule);
  return {.name = schedule.name,
          .shape = schedule.shape,
          .step_time = simulation.step_time.count(),
          .longest_span = simulation.longest_span.count(),
          .bubble_rate = simulation.bubble_rate,
          .clipped_interval = interval_of(schedule, workload, data, schedule::NormUse::kScalesUpdate),
          .unclipped_interval = interval_of(schedule, workload, data, schedule::NormUse::kReportedOnly),
          .peaks = peaks_of(schedule, workload),
          .weights_in_hand = count_weights_in_hand(schedule),
          .has_exchanges = plain.has_value(),
          .step_time_without = plain ? run(*plain).step_time.count() : 0};
}

nlohmann::ordered_json to_json(const Row& row) {
  using Json = nlohmann::ordered_json;
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(nullptr); };
  Json json = {{"schedule", row.name},
               {"pp", row.shape.ranks},
               {"micro", row.shape.microbatches},
               {"chunks", row.shape.chunks_per_rank},
               {"step_time", row.step_time},
               {"longest_span", row.longest_span},
               {"bubble_rate", row.bubble_rate},
               {"interval", number(row.clipped_interval)},
               {"interval_without_clipping", number(row.unclipped_interval)},
               {"peak_memory", row.peaks}};
  if (row.has_exchanges) {
    json["weights_in_hand"] = row.weights_in_hand;
    json["step_time_without"] = row.step_time_without;
  }
  return json;
}

void add_json_option(ScheduleTable& table) {
  table.group("Output");
  table.add("json", &S::json, {.help = "Print JSON instead."});
}

// The reason why a mode is skipped; most already start with the mode.
std::string with_name(std::string_view mode, const std::string& reason) {
  return reason.starts_with(cat(mode, " ")) ? reason : cat(mode, ": ", reason);
}

// The baseline of speeds: 1F1B, even if the memory limit excludes it. Nothing if the times are not for 1
// chunk.
std::optional<Row> one_f_one_b(ScheduleOptions options) {
  options.memory_limit.reset();
  options.chunks = 1;
  try {
    return simulated(options, "1F1B");
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// All modes, each with the number of chunks that it is made for.
std::vector<Row> compare(const ScheduleOptions& options, std::vector<std::string>& skipped) {
  std::vector<Row> rows;
  for (const schedule::Mode& mode : schedule::modes()) {
    std::vector<std::optional<int32_t>> chunk_counts = {std::nullopt};
    if (mode.name == "auto") chunk_counts = {1, options.chunks.value_or(2)};
    if (mode.name == "InterleavedZB") chunk_counts = {options.chunks.value_or(2)};
    if (mode.name == "VPP") chunk_counts = {options.chunks};
    for (const std::optional<int32_t> chunks : chunk_counts) {
      ScheduleOptions one = options;
      one.chunks = chunks;
      try {
        rows.push_back(simulated(one, mode.name));
      } catch (const ConfigError& error) {
        skipped.push_back(with_name(mode.name, error.what()));
      }
    }
  }
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    return std::pair(a.step_time, a.peak()) < std::pair(b.step_time, b.peak());
  });
  return rows;
}

std::string interval_text(std::optional<double> interval) { return interval ? brief(*interval, 6) : "-"; }

std::string comparison_text(const std::vector<Row>& rows, const std::optional<Row>& baseline) {
  size_t width = 8;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  const bool has_exchanges = std::ranges::any_of(rows, &Row::has_exchanges);
  std::ostringstream text;
  const auto line = [&](const auto& name, const auto& chunks, const auto& time, const auto& speed,
                        const auto& bubble, const auto& interval, const auto& unclipped, const auto& peak,
                        const auto& in_hand, const auto& without) {
    text << std::left << std::setw(static_cast<int>(width)) << name << std::right << std::setw(8) << chunks
         << std::setw(12) << time << std::setw(9) << speed << std::setw(9) << bubble << std::setw(10)
         << interval << std::setw(11) << unclipped << std::setw(10) << peak;
    if (has_exchanges) text << std::setw(11) << in_hand << std::setw(11) << without;
    text << "\n";
  };
  line("schedule", "chunks", "step time", "speed", "bubble", "interval", "unclipped", "peak", "W in hand",
       "without");
  for (const Row& row : rows) {
    line(row.name, row.shape.chunks_per_rank, brief(row.step_time, 6),
         baseline && row.step_time > 0 ? fixed(baseline->step_time / row.step_time, 3) : "-",
         fixed(100 * row.bubble_rate, 2) + "%", interval_text(row.clipped_interval),
         interval_text(row.unclipped_interval), brief(row.peak(), 6), row.weights_in_hand,
         brief(row.step_time_without, 6));
  }
  return text.str();
}

std::string tradeoff_plot(const ScheduleOptions& options, const std::vector<Row>& rows,
                          const std::optional<Row>& baseline) {
  const bool is_relative = baseline && baseline->peak() > 0;
  std::vector<report::TradeoffPoint> points;
  for (const Row& row : rows) {
    const std::string chunks = row.shape.chunks_per_rank > 1 && row.name.starts_with("auto")
                                   ? cat(" (", row.shape.chunks_per_rank, " chunks)")
                                   : "";
    points.push_back({.name = row.name + chunks,
                      .peak_memory = is_relative ? row.peak() / baseline->peak() : row.peak(),
                      .bubble_rate = row.bubble_rate});
  }
  report::TradeoffOptions labels = {
      .title = cat("Bubble against memory: ", options.pp, " ranks, ", options.micro, " microbatches")};
  if (!is_relative) labels.memory_label = "peak memory";
  return report::draw_tradeoff(points, labels);
}

}  // namespace

int schedule_simulate_command(const CommandContext& context) {
  ScheduleTable table(
      {.command = "braid schedule simulate",
       .usage = "[--flag value]...",
       .summary = "Prints a step's duration, the interval from one step to the next, the bubble rate "
                  "and the peak memory of each rank. With gradient clipping all ranks wait for the "
                  "norm once a step; without, a rank may begin the next step early. Neither is computed "
                  "for very large schedules. "
                  "The bubble rate is that of the zero-bubble paper (arXiv:2401.10241): the share of "
                  "the longest rank's time, from its own first action to its own last, in which it "
                  "does not compute."});
  add_schedule_options(table);
  add_workload_options(table);
  add_exchange_options(table);
  add_data_options(table);
  add_json_option(table);
  const auto parsed = parse_command(context, table);
  if (!parsed) return 0;
  const Row row = simulated(parsed->options, parsed->options.mode);
  if (parsed->options.json) {
    context.out << to_json(row).dump() << "\n";
    return 0;
  }
  context.out << "schedule: " << row.name << ", " << counted(row.shape.ranks, "rank") << ", "
              << counted(row.shape.chunks_per_rank, "chunk") << " each, "
              << counted(row.shape.microbatches, "microbatch", "microbatches")
              << "\nstep_time: " << brief(row.step_time, 9)
              << "\ninterval: " << interval_text(row.clipped_interval) << " with gradient clipping, "
              << interval_text(row.unclipped_interval)
              << " without\nbubble_rate: " << fixed(row.bubble_rate, 4) << "\npeak_memory:";
  constexpr size_t kShown = 64;
  for (size_t rank = 0; rank < std::min(kShown, row.peaks.size()); ++rank) {
    context.out << " " << brief(row.peaks[rank], 6);
  }
  if (row.peaks.size() > kShown) {
    context.out << " ... (" << row.peaks.size() << " ranks, largest " << brief(row.peak(), 6) << ")";
  }
  context.out << "\n";
  if (row.has_exchanges) {
    context.out << "weights_in_hand: " << row.weights_in_hand
                << "; without them step_time: " << brief(row.step_time_without, 9) << "\n";
  }
  return 0;
}

int schedule_compare_command(const CommandContext& context) {
  ScheduleTable table(
      {.command = "braid schedule compare",
       .usage = "[--flag value]...",
       .summary =
           "Compares all schedules for one pipeline, the shortest step first. The step time "
           "runs from the first start to the last end on any rank; speed is 1F1B's step time "
           "over it. With --mp_exchange, the last columns are the number of W's that run behind exchanges, "
           "and the step time if none did. The interval is the time from one step to the next, with gradient "
           "clipping and without."});
  table.group("Pipeline");
  add_pipeline_options(table);
  table.add("chunks", &S::chunks,
            {.help = "Chunks per rank, for schedules that support any number. Unset: 2.",
             .range = {.at_least = 2, .at_most = 1024},
             .aliases = {"virtual_pp_degree"}});
  add_workload_options(table);
  add_exchange_options(table);
  add_data_options(table);
  add_json_option(table);
  add_output_file_options(table, "Also plot bubble rate against memory into this SVG file.");
  const auto parsed = parse_command(context, table);
  if (!parsed) return 0;
  const ScheduleOptions& options = parsed->options;
  require_new_output(options);
  std::vector<std::string> skipped;
  const std::vector<Row> rows = compare(options, skipped);
  for (const std::string& reason : skipped) context.err << "skipped: " << reason << "\n";
  require<ConfigError>(!rows.empty(), "no schedule supports this pipeline; see the reasons above");
  const std::optional<Row> baseline = one_f_one_b(options);
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Row& row : rows) all.push_back(to_json(row));
    context.out << all.dump() << "\n";
  } else {
    context.out << comparison_text(rows, baseline);
  }
  if (!options.out.empty()) checkpoint::write_text_file(options.out, tradeoff_plot(options, rows, baseline));
  return 0;
}

}  // namespace braid::cli
