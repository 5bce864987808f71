// `braid schedule export` and `braid schedule draw`.
#include <string>
#include <utility>

#include "braid/base/error.h"
#include "braid/checkpoint/file.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/schedule_command.h"
#include "braid/cli/schedule_options.h"
#include "braid/report/pipeline_drawing.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/simulate.h"

namespace braid::cli {
namespace {

// A file of about 500 MB, and a drawing of at most 3 actions per cell (draw_svg draws up to 200,000).
constexpr int64_t kMostCellsExported = int64_t{1} << 26;
constexpr int64_t kMostCellsDrawn = int64_t{1} << 16;

// To --out, or to standard output if it is unset.
void write_output(const CommandContext& context, const ScheduleOptions& options, const std::string& text) {
  if (options.out.empty()) {
    context.out << text;
  } else {
    checkpoint::write_text_file(options.out, text);
  }
}

ScheduleTable file_table(std::string command, std::string summary) {
  ScheduleTable table(
      {.command = std::move(command), .usage = "[--flag value]...", .summary = std::move(summary)});
  add_schedule_options(table);
  add_workload_options(table);
  return table;
}

void add_output_options(ScheduleTable& table) {
  table.group("Output");
  add_output_file_options(table, "Output file. Unset: standard output.");
}

}  // namespace

int schedule_export_command(const CommandContext& context) {
  ScheduleTable table =
      file_table("braid schedule export",
                 "Writes a schedule's compute actions as CSV, one row per rank, in the format that "
                 "PyTorch's pipelining (compute_only) and braid's --mode csv:FILE read.");
  add_output_options(table);
  const auto parsed = parse_command(context, table);
  if (!parsed) return 0;
  require_new_output(parsed->options);
  write_output(context, parsed->options,
               schedule::to_csv(schedule_of(parsed->options, parsed->options.mode,
                                            {.cells = kMostCellsExported, .purpose = "export"})));
  return 0;
}

int schedule_draw_command(const CommandContext& context) {
  ScheduleTable table =
      file_table("braid schedule draw",
                 "Draws a schedule as SVG, to scale: one row per rank, a box per action, a W in "
                 "hand below the action that it runs within, idle time hatched. With data ranks, what they "
                 "exchange is below each row for as long as it is in flight, and the row shows where the "
                 "rank waits for it.");
  add_exchange_options(table);
  add_data_options(table);
  add_output_options(table);
  const auto parsed = parse_command(context, table);
  if (!parsed) return 0;
  require_new_output(parsed->options);
  const schedule::Schedule plain =
      schedule_of(parsed->options, parsed->options.mode, {.cells = kMostCellsDrawn, .purpose = "draw"});
  schedule::Workload workload = workload_of(parsed->options, plain.shape);
  const schedule::Schedule compute = with_weights_in_hand(parsed->options, plain, workload.durations);
  add_data_times(parsed->options, plain.shape, workload.durations);
  const schedule::Schedule schedule = with_data_axes(parsed->options, compute);
  write_output(
      context, parsed->options,
      report::draw_svg(
          schedule, schedule::simulate(schedule, workload.durations),
          {.peaks = peaks_of(compute, workload), .peak_unit = "memory", .durations = workload.durations}));
  return 0;
}

}  // namespace braid::cli
