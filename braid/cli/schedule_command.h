// `braid schedule`: draws, simulates, compares and exports schedules, and runs them on emulated ranks.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Returns the exit code; errors are printed, as run_group does.
int schedule_command(const CommandContext& context);

/// Its commands. Each throws what parse_command and schedule_of throw.
int schedule_show_command(const CommandContext& context);
int schedule_simulate_command(const CommandContext& context);
int schedule_compare_command(const CommandContext& context);
int schedule_export_command(const CommandContext& context);
int schedule_draw_command(const CommandContext& context);
int schedule_run_command(const CommandContext& context);

}  // namespace braid::cli
