// `braid launch`: braid/launch with this process's environment, terminal and signals.
#pragma once

#include "braid/cli/run.h"
#include "braid/launch/launch.h"

namespace braid::cli {

/// Starts the ranks that the arguments describe and returns their exit code. Call it from the main thread.
/// Throws ConfigError for invalid arguments, before any rank starts.
int launch_command(const CommandContext& context);

/// What the launcher needs from this process to start ranks of this program.
launch::LaunchContext launch_context(const CommandContext& context);

}  // namespace braid::cli
