#include "braid/cli/launch_command.h"

#include <unistd.h>

#include <optional>

#include "braid/base/error.h"

namespace braid::cli {

launch::LaunchContext launch_context(const CommandContext& context) {
  const auto write_to = [](std::ostream& stream) {
    return [&stream](std::string_view bytes) { stream << bytes << std::flush; };
  };
  return {.program = context.program.string(),
          .environment = context.environment,
          .output = write_to(context.out),
          .message = write_to(context.err),
          .terminal_columns = context.out_columns,
          .terminal_fd = ::isatty(STDOUT_FILENO) == 1 ? std::optional(STDOUT_FILENO) : std::nullopt,
          .cores = context.cores};
}

int launch_command(const CommandContext& context) {
  const auto options = launch::parse_launch_options(context.arguments);
  if (!options) {
    context.out << launch::launch_help();
    return 0;
  }
  outlive_reader();
  if (launch::is_own_program(*options)) return launch::run_launch(*options, launch_context(context));
  const std::string& command = options->command.front();
  check_command_name(command);
  require<ConfigError>(command != "launch", "launch cannot launch itself; name another command, as in ",
                       context.name, " --nproc_per_node 2 pretrain ...");
  return launch::run_launch(*options, launch_context(context));
}

}  // namespace braid::cli
