// Command lines as assignments to options.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/error_list.h"
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
/// Values may begin with one dash; in names, dashes stand for underscores too. Throws ConfigError for unknown
/// flags (suggesting the nearest), flags given twice or without a value, and unexpected arguments, all of
/// them at once.
ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals = Positionals::kReject);

/// The same, with the errors added to `errors` in place of thrown; what is right is returned. `advice` ends
/// the messages about unknown flags.
ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals, ErrorList& errors, std::string_view advice = {});

}  // namespace braid::config
