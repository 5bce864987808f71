#include "braid/cli/schedule_command.h"

#include "braid/cli/command_group.h"

namespace braid::cli {

int schedule_command(const CommandContext& context) {
  return run_group(
      context,
      {.summary = "Pipeline schedules as data: what every rank does in one step.",
       .commands = {{"show", "draw a schedule as text, or list its actions", schedule_show_command},
                    {"simulate", "print its step time, bubble and memory", schedule_simulate_command},
                    {"compare", "compare all schedules for one pipeline, fastest first",
                     schedule_compare_command},
                    {"draw", "draw a schedule as SVG", schedule_draw_command},
                    {"export", "write a schedule as CSV", schedule_export_command},
                    {"run", "run schedules on ranks that wait instead of computing", schedule_run_command}},
       .examples = {"braid schedule show --mode 1F1B --pp 4 --micro 8 --times 1,1,1,0.1",
                    "braid schedule compare --pp 4 --micro 8 --times 1,1,0.8,0.05",
                    "braid schedule draw --mode ZBVPP --pp 4 --micro 8 --out zbvpp.svg",
                    "braid schedule run --mode 1F1B,ZBH1 --pp 4 --micro 8 --times 0.02,0.02,0.02,0.001"}});
}

}  // namespace braid::cli
