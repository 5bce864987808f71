// `braid pretrain`: one rank of a run, or the whole of a run on one rank.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Trains as the arguments say, see `braid pretrain --help`. The launcher's variables in
/// context.environment tell which rank this is. A signal of StopSignals ends the
/// run after the present step, with the model exported and exit code 128 + the signal.
int pretrain_command(const CommandContext& context);

}  // namespace braid::cli
