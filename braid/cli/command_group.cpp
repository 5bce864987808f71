#include "braid/cli/command_group.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::cli {
namespace {

bool is_help(std::string_view word) { return word == "help" || word == "--help" || word == "-h"; }

CommandContext context_of(const CommandContext& context, const Command& command,
                          std::vector<std::string> arguments) {
  CommandContext inner = context;
  inner.name += " " + command.name;
  inner.arguments = std::move(arguments);
  return inner;
}

}  // namespace

std::string overview(std::string_view name, const CommandGroup& group) {
  size_t width = 0;
  for (const Command& command : group.commands) width = std::max(width, command.name.size());
  std::string text = cat(group.summary, "\n\nUsage: ", name, " COMMAND [ARGUMENTS]\n\n");
  for (const Command& command : group.commands) {
    text += "  " + command.name + std::string(width + 3 - command.name.size(), ' ') + command.summary + "\n";
  }
  text += cat("\n", name, " COMMAND --help lists a command's options.\n");
  if (!group.examples.empty()) text += group.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : group.examples) text += "  " + example + "\n";
  return text;
}

const Command& find_command(const CommandGroup& group, std::string_view name) {
  if (name.starts_with('-')) {
    const auto meant = nearest(name, std::vector<std::string>{"--help", "--version"});
    throw ConfigError(cat("expected a command before options, got '", name, "'",
                          meant ? cat("; did you mean ", *meant, "?") : "; --help lists the commands"));
  }
  std::vector<std::string> names;
  for (const Command& command : group.commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  // A script of PaddleNLP's, such as run_pretrain.py or run_pretrain_auto.py.
  const bool is_script = name.ends_with(".py") && name.find("pretrain") != std::string_view::npos;
  require<ConfigError>(!is_script, "'", name,
                       "' is a Python script; braid's command in its place is pretrain");
  const auto close = nearest(name, names);
  throw ConfigError(cat("unknown command '", name, "'",
                        close ? cat("; did you mean ", *close, "?") : "; --help lists the commands"));
}

int run_group(const CommandContext& context, const CommandGroup& group) {
  std::string who = context.name;
  try {
    std::vector<std::string> words = context.arguments;
    const bool wants_help = !words.empty() && is_help(words.front());
    if (wants_help) words.erase(words.begin());
    if (words.empty()) {
      context.out << overview(context.name, group);
      return wants_help ? 0 : kUserErrorExitCode;
    }
    const Command& command = find_command(group, words.front());
    words.erase(words.begin());
    // The command's own --help may have a topic behind it.
    if (wants_help) words.insert(words.begin(), "--help");
    const CommandContext inner = context_of(context, command, std::move(words));
    who = inner.name;
    return command.run(inner);
  } catch (...) {
    return report_exception(who, context.err);
  }
}

}  // namespace braid::cli
