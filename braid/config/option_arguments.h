// Command lines as assignments to options.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "braid/config/option_spec.h"

namespace braid::config {

/// What to do with an argument that is neither a flag nor a flag's value.
enum class Positionals {
  kRefuse,
  /// Keep it, wherever it stands.
  kCollect,
  /// It and all after it are another command's.
  kStopAtFirst,
};

struct ParsedArguments {
  std::vector<Assignment> assignments;
  /// The arguments kept, in order.
  std::vector<std::string> rest;
};

/// The flags of a command line: `--name value`, `--name=value`, a bare `--name` for a switch that is to be
/// true, and `--name a b c` for lists. A switch takes the next argument as its value only if that reads as
/// true or false. Values may begin with one dash. Throws ConfigError for an unknown flag (naming the
/// nearest), a flag given twice or without its value, and stray arguments.
ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals = Positionals::kRefuse);

}  // namespace braid::config
