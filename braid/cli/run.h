// The program `braid`: runs the command that the command line names and reports its errors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "braid/base/failure.h"

namespace braid::cli {

/// The environment of a command, passed in so that commands do not look it up.
struct CommandContext {
  std::string name{"braid"};             // as the user typed it: "braid data prepare"
  std::vector<std::string> arguments{};  // what follows the name
  std::filesystem::path program{};       // this program's file
  std::map<std::string, std::string> environment{};
  std::ostream& out;                     // results
  std::ostream& err;                     // progress, notes and errors
  std::optional<int64_t> out_columns{};  // width of the terminal, if `out` is one
  std::optional<int64_t> err_columns{};  // the same for `err`
  /// The width at this moment of the terminal on a descriptor; may be empty.
  std::function<std::optional<int64_t>(int descriptor)> columns_now{};
  int64_t cores = 1;  // that this process may use
};

/// A variable of the environment; nothing if it is unset or empty.
std::optional<std::string> lookup(const CommandContext& context, std::string_view name);

/// The whole program: reads environment, terminal and machine, runs the command, prints its error. Returns
/// the exit code. Does not throw.
int run(int argc, const char* const* argv);

/// The command that `context.arguments` begin with. Errors are printed as one message, `braid <command>:
/// ...`, on context.err. Returns the exit code.
int run(const CommandContext& context);

/// Prints the exception being handled as "<who>: <message>", for out of memory with what to lower in that
/// command, and returns its exit code. Call it in a catch block only. Does not throw.
int report_exception(std::string_view who, std::ostream& err);

/// To be called before anything else, even the initialisers of libraries: occupies standard descriptors that
/// are closed, makes uncaught exceptions end the process with their message and exit code, makes a file that
/// grows beyond RLIMIT_FSIZE an error of the write, and ends the process if its directory has been deleted.
void prepare_process();

/// From now on, a reader that closes standard output does not end the process: for commands that do more than
/// print. The program then ends with kOutputErrorExitCode if nothing else is wrong.
void outlive_reader();

/// Throws ConfigError, suggesting the nearest name, if braid has no command `name`.
void check_command_name(std::string_view name);

}  // namespace braid::cli
