// `braid data prepare | tokenizer | inspect`: text to token files, and what token files hold.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Runs the command that the arguments name; see run_group for what is returned. Does not throw.
int data_command(const CommandContext& context);

}  // namespace braid::cli
