#include "braid/cli/run.h"

#include <c10/util/Exception.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <new>
#include <system_error>

#include "braid/base/error.h"
#include "braid/cli/build_info.h"
#include "braid/cli/command_group.h"
#include "braid/cli/data_command.h"
#include "braid/cli/generate_command.h"
#include "braid/cli/launch_command.h"
#include "braid/cli/machine.h"
#include "braid/cli/pretrain_command.h"
#include "braid/cli/schedule_command.h"
#include "braid/cli/terminal.h"
#include "braid/cli/version.h"
#include "braid/launch/launch.h"

namespace braid::cli {
namespace {

CommandGroup braid_commands() {
  return {
      .summary =
          "braid " + std::string(kVersion) +
          ": pretrains Llama-family models with pipeline parallelism, on CPUs and GPUs, without Python.",
      .commands = {{"pretrain", "train a model on token files; run it through launch for several ranks",
                    pretrain_command},
                   {"launch", "start a command once per rank, show rank 0's output, stop all if one fails",
                    launch_command},
                   {"generate", "continue a text with a trained model", generate_command},
                   {"data", "train tokenizers (tokenizer), make token files (prepare), check them (inspect)",
                    data_command},
                   {"schedule", "draw, simulate, compare and run pipeline schedules", schedule_command}},
      .examples = {"braid data prepare --input docs --output_prefix out/docs --tokenizer byte",
                   "braid schedule show --mode 1F1B --pp 4 --micro 8"}};
}

std::string version_text() {
  const BuildInfo info = build_info();
  std::string with;
  std::string without;
  for (const BuildFeature& feature : info.features) {
    std::string& list = feature.is_built_in ? with : without;
    list += cat(list.empty() ? "" : ", ", feature.name);
  }
  return cat("braid ", info.version, "\nlibtorch ", info.libtorch, ", ", info.compiler, ", ", info.build_type,
             "\nwith: ", with.empty() ? "none" : with, "\nwithout: ", without.empty() ? "none" : without,
             "\n");
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    // Of duplicate entries, getenv sees the first.
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

// Whether the reader of standard output has closed it, as `head` does.
bool has_reader_left() {
  pollfd polled = {STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLERR) != 0;
}

// Lost output is not a success. A reader that closed the pipe on purpose needs no message.
int with_output_checked(int code) {
  std::cout.flush();
  if (std::cout || code != 0) return code;
  if (has_reader_left()) return 128 + SIGPIPE;
  std::cerr << "braid: cannot write to standard output: is the disk full?\n";
  return kOutputErrorExitCode;
}

int report(std::string_view who, std::string_view what, int code, std::ostream& err) {
  while (what.ends_with('\n')) what.remove_suffix(1);
  // Some messages start with the command's name: "braid launch has nothing to run".
  if (!what.starts_with(cat(who, " "))) err << who << ": ";
  err << what << "\n" << std::flush;
  return code;
}

}  // namespace

std::optional<std::string> lookup(const CommandContext& context, std::string_view name) {
  const auto found = context.environment.find(std::string(name));
  if (found == context.environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

int report_exception(std::string_view who, std::ostream& err) {
  constexpr std::string_view kBug =
      "\nThis is a bug in braid: please report it with the command line and this message.";
  try {
    throw;
  } catch (const ConfigError& error) {
    return report(who, error.what(), kUserErrorExitCode, err);
  } catch (const ShapeError& error) {
    return report(who, error.what(), kUserErrorExitCode, err);
  } catch (const DataError& error) {
    return report(who, error.what(), kUserErrorExitCode, err);
  } catch (const CommError& error) {
    return report(who, error.what(), launch::kPeerFailedExitCode, err);
  } catch (const c10::OutOfMemoryError& error) {
    return report(who, error.what_without_backtrace(), kSystemErrorExitCode, err);
  } catch (const c10::DistError& error) {
    return report(who, cat("libtorch: ", error.what_without_backtrace()), launch::kPeerFailedExitCode, err);
  } catch (const c10::Error& error) {
    return report(who, cat("libtorch: ", error.what_without_backtrace(), kBug), kInternalErrorExitCode, err);
  } catch (const std::bad_alloc&) {
    return report(who, "out of memory", kSystemErrorExitCode, err);
  } catch (const std::system_error& error) {
    return report(who, error.what(), kSystemErrorExitCode, err);
  } catch (const std::exception& error) {
    return report(who, cat(error.what(), kBug), kInternalErrorExitCode, err);
  } catch (...) {
    return report(who, cat("unknown exception", kBug), kInternalErrorExitCode, err);
  }
}

void check_command_name(std::string_view name) { find_command(braid_commands(), name); }

int run(const CommandContext& context) {
  if (!context.arguments.empty() &&
      (context.arguments.front() == "--version" || context.arguments.front() == "version")) {
    context.out << version_text();
    return 0;
  }
  return run_group(context, braid_commands());
}

int run(int argc, const char* const* argv) {
  try {
    const auto environment = process_environment();
    const CommandContext context = {.arguments = {argv + std::min(argc, 1), argv + argc},
                                    .program = program_path(),
                                    .environment = environment,
                                    .out = std::cout,
                                    .err = std::cerr,
                                    .out_columns = terminal_columns(STDOUT_FILENO, environment),
                                    .err_columns = terminal_columns(STDERR_FILENO, environment),
                                    .cores = usable_cores()};
    return with_output_checked(run(context));
  } catch (...) {
    return report_exception("braid", std::cerr);
  }
}

}  // namespace braid::cli
