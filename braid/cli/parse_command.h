// Parses the options of one command.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "braid/cli/run.h"
#include "braid/config/option_table.h"

namespace braid::cli {

template <typename Options>
struct ParsedCommand {
  Options options{};
  std::vector<std::string> rest{};  // positional arguments
};

/// The parsed `context.arguments`, or nothing if they request help, which is then printed. Throws ConfigError
/// as config::parse_arguments and OptionTable::apply do.
template <typename Options>
std::optional<ParsedCommand<Options>> parse_command(
    const CommandContext& context, const config::OptionTable<Options>& table,
    config::Positionals positionals = config::Positionals::kReject) {
  const std::vector<std::string>& words = context.arguments;
  const auto wants_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(words.begin(), words.end(), wants_help)) {
    context.out << table.help();
    return std::nullopt;
  }
  config::ParsedArguments arguments = config::parse_arguments(words, table.specs(), positionals);
  ParsedCommand<Options> parsed{.options = {}, .rest = std::move(arguments.rest)};
  for (const std::string& note : table.apply(parsed.options, arguments.assignments)) {
    context.err << context.name << ": " << note << "\n";
  }
  return parsed;
}

}  // namespace braid::cli
