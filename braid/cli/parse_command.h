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

/// A wish for help, about `topic` if there is one.
struct HelpRequest {
  std::optional<std::string> topic{};
};

/// The help that `words` ask for by --help or -h, with the word behind it as the topic.
inline std::optional<HelpRequest> help_request(const std::vector<std::string>& words) {
  const auto wants_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  const auto found = std::find_if(words.begin(), words.end(), wants_help);
  if (found == words.end()) return std::nullopt;
  const auto topic = found + 1;
  if (topic == words.end()) return HelpRequest{};
  return HelpRequest{.topic = *topic};
}

/// The parsed `context.arguments`, or nothing if they request help, which is then printed. Throws ConfigError
/// as config::parse_arguments and OptionTable::apply do, with all errors of both at once.
template <typename Options>
std::optional<ParsedCommand<Options>> parse_command(
    const CommandContext& context, const config::OptionTable<Options>& table,
    config::Positionals positionals = config::Positionals::kReject) {
  const std::vector<std::string>& words = context.arguments;
  if (const std::optional<HelpRequest> help = help_request(words)) {
    context.out << table.help(help->topic);
    return std::nullopt;
  }
  config::ErrorList errors;
  config::ParsedArguments arguments = config::parse_arguments(words, table.specs(), positionals, errors);
  ParsedCommand<Options> parsed{.options = {}, .rest = std::move(arguments.rest)};
  const auto unused = table.apply(parsed.options, arguments.assignments, errors);
  errors.throw_if_any();
  for (const std::string& note : config::notes_of(unused)) {
    context.err << context.name << ": " << note << "\n";
  }
  return parsed;
}

}  // namespace braid::cli
