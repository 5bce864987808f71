// The option table of `braid pretrain`.
#pragma once

#include <string>

#include "braid/config/option_table.h"
#include "braid/config/options.h"

namespace braid::config {

/// Declares every field of PretrainOptions once, grouped as --help shows them.
OptionTable<PretrainOptions> pretrain_table();

/// The text of docs/options.md.
std::string options_markdown();

}  // namespace braid::config
