#include "braid/cli/launch_command.h"

#include "braid/base/error.h"
#include "braid/comm/launchers.h"

namespace braid::cli {

namespace {

// As where mpirun starts braid launch several times: each would be a run of its own.
std::optional<std::string> several_launchers(const CommandContext& context,
                                             const launch::LaunchOptions& options) {
  const auto outer = comm::outer_place([&](std::string_view name) { return lookup(context, name); });
  if (!outer || options.nnodes > 1) return std::nullopt;
  return cat(outer->launcher, " has started this launcher ", outer->size, " times (this is number ",
             outer->rank,
             "), and each starts a run of its own; for one run, start braid launch once, or give --nnodes ",
             outer->size, " and each its --node_rank, or start braid without launch");
}

}  // namespace

launch::LaunchContext launch_context(const CommandContext& context) {
  const auto write_to = [](std::ostream& stream) {
    return [&stream](std::string_view bytes) { stream << bytes << std::flush; };
  };
  return {.program = context.program.string(),
          .environment = context.environment,
          .output = write_to(context.out),
          .message = write_to(context.err),
          .terminal_columns = context.out_columns,
          .cores = context.cores};
}

int launch_command(const CommandContext& context) {
  const auto options = launch::parse_launch_options(context.arguments);
  if (!options) {
    context.out << launch::launch_help();
    return 0;
  }
  if (const auto note = several_launchers(context, *options))
    context.err << context.name << ": " << *note << "\n";
  if (launch::is_own_program(*options)) return launch::run_launch(*options, launch_context(context));
  const std::string& command = options->command.front();
  check_command_name(command);
  require<ConfigError>(command != "launch", "launch cannot launch itself; name another command, as in ",
                       context.name, " --nproc_per_node 2 pretrain ...");
  return launch::run_launch(*options, launch_context(context));
}

}  // namespace braid::cli
