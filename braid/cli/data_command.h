// `braid data prepare | tokenizer | inspect`: makes and checks token files.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Runs the command that the arguments name. Returns as run_group does. Does not throw.
int data_command(const CommandContext& context);

}  // namespace braid::cli
