// `braid schedule show`: a pipeline schedule as a drawing, as lists of actions or as CSV.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Runs the command that the arguments name; see run_group for what is returned. Does not throw.
int schedule_command(const CommandContext& context);

}  // namespace braid::cli
