// Command lines as assignments to options.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "braid/config/option_spec.h"

namespace braid::config {

/// Handling of arguments that are neither flags nor values of flags.
enum class Positionals {
  kReject,
  /// Keep it, wherever it stands.
  kCollect,
  /// It and everything after it belong to another command.
  kStopAtFirst,
};

struct ParsedArguments {
  std::vector<Assignment> assignments;
  /// The positional arguments, in order.
  std::vector<std::string> rest;
};

/// The flags of a command line: `--name value`, `--name=value`, a bare `--name` to turn a switch on, and
/// `--name a b c` for lists. A switch takes the next argument as its value only if it reads as true or false.
/// Values may begin with one dash. Throws ConfigError for an unknown flag (suggesting the nearest), a flag
/// given twice or without a value, and unexpected arguments.
ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals = Positionals::kReject);

}  // namespace braid::config
