// Groups of commands: `braid COMMAND`, `braid data COMMAND`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "braid/cli/run.h"

namespace braid::cli {

struct Command {
  std::string name;
  std::string summary;  // one line
  int (*run)(const CommandContext& context);
};

struct CommandGroup {
  std::string summary;
  std::vector<Command> commands;
  std::vector<std::string> examples;
};

/// What `<name> --help` prints: the summary, a line for each command, the examples.
std::string overview(std::string_view name, const CommandGroup& group);

/// The command called `name`. Throws ConfigError, suggesting the nearest name, if there is none.
const Command& find_command(const CommandGroup& group, std::string_view name);

/// Runs the command that the first argument names, with the rest. `help`, `--help` and `-h` print the
/// overview, `help COMMAND` that command's help; without arguments it prints the overview and returns
/// kUserErrorExitCode. Exceptions are reported under the command's name. Returns the exit code.
int run_group(const CommandContext& context, const CommandGroup& group);

}  // namespace braid::cli
