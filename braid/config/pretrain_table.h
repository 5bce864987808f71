// The option table of `braid pretrain`.
#pragma once

#include <optional>
#include <string>

#include "braid/config/option_table.h"
#include "braid/config/options.h"

namespace braid::config {

/// Declares every field of PretrainOptions once, grouped as --help shows them.
OptionTable<PretrainOptions> pretrain_table();

/// The text of docs/options.md.
std::string options_markdown();

/// The answer to `braid pretrain --help TOPIC`, see help_on; PaddleNLP's other options included.
std::string pretrain_help(const std::optional<std::string>& topic);

}  // namespace braid::config
