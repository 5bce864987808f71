// `braid generate`: text from a trained model.
#pragma once

#include "braid/cli/run.h"

namespace braid::cli {

/// Continues a prompt, printing the text as it is generated; see `braid generate --help`.
int generate_command(const CommandContext& context);

}  // namespace braid::cli
