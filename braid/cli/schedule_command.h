// `braid schedule`: schedules drawn, timed, compared, written, and run on emulated ranks.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Returns the exit code; what is wrong with the options is printed, as run_group does.
int schedule_command(const CommandContext& context);

/// Its commands. They throw what parse_command and schedule_of throw.
int schedule_show_command(const CommandContext& context);
int schedule_simulate_command(const CommandContext& context);
int schedule_compare_command(const CommandContext& context);
int schedule_export_command(const CommandContext& context);
int schedule_draw_command(const CommandContext& context);
int schedule_run_command(const CommandContext& context);

}  // namespace braid::cli
