#include "braid/cli/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <exception>
#include <iostream>

#include "braid/base/error.h"
#include "braid/cli/command_group.h"
#include "braid/cli/data_command.h"
#include "braid/cli/generate_command.h"
#include "braid/cli/launch_command.h"
#include "braid/cli/machine.h"
#include "braid/cli/pretrain_command.h"
#include "braid/cli/schedule_command.h"
#include "braid/cli/terminal.h"
#include "braid/cli/version.h"

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

std::atomic<bool> outlives_reader = false;

// A descriptor that is closed would be given to the next file or socket, which would then receive what is
// printed. In its place goes one that cannot be written: output that is lost is noticed, and not a success.
void occupy_standard_descriptors() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(standard, F_GETFD) >= 0) continue;
    // Takes the lowest free number, which is this one.
    [[maybe_unused]] const int null = ::open("/dev/null", O_RDONLY);
  }
}

// Ends the process after an exception that no caller can see: of a destructor, of a thread of a library.
[[noreturn]] void end_on_uncaught_exception() {
  const std::exception_ptr thrown = std::current_exception();
  const Failure failure = thrown ? failure_of(thrown) : Failure{.exit_code = kInternalErrorExitCode};
  // Piece by piece, which takes no memory, and not through std::cerr, which an early end would find unmade.
  for (const std::string_view piece :
       {std::string_view("braid: "),
        thrown ? std::string_view(failure.sentence) : "ended without an exception: this is a bug in braid",
        std::string_view("\n")}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, piece.data(), piece.size());
  }
  ::_exit(failure.exit_code);
}

// Whether the reader of standard output has closed it, as `head` does.
bool has_reader_left() {
  pollfd polled = {STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLERR) != 0;
}

// Lost output is not a success. A command that only prints needs no message where its reader has seen enough:
// it ends as one that SIGPIPE kills.
int with_output_checked(int code) {
  std::cout.flush();
  if (std::cout || code != 0) return code;
  const bool is_unread = has_reader_left();
  if (is_unread && !outlives_reader) return kSignalExitCode + SIGPIPE;
  std::cerr
      << (is_unread
              ? "braid: the reader of standard output closed it before the end; everything else is done\n"
              : "braid: cannot write to standard output: is it closed, or the disk full?\n");
  return kOutputErrorExitCode;
}

}  // namespace

std::optional<std::string> lookup(const CommandContext& context, std::string_view name) {
  const auto found = context.environment.find(std::string(name));
  if (found == context.environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

void prepare_process() {
  occupy_standard_descriptors();
  std::set_terminate(end_on_uncaught_exception);
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes fails like one to a full disk
  std::array<char, PATH_MAX> directory{};
  if (::getcwd(directory.data(), directory.size()) == nullptr && errno == ENOENT) {
    constexpr std::string_view kText =
        "braid: the current directory has been deleted; change to one that exists\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
    ::_exit(kUserErrorExitCode);
  }
}

void outlive_reader() {
  ::signal(SIGPIPE, SIG_IGN);
  outlives_reader = true;
}

void check_command_name(std::string_view name) { find_command(braid_commands(), name); }

int run(const CommandContext& context) {
  if (!context.arguments.empty() && context.arguments.front() == "--version") {
    context.out << "braid " << kVersion << "\n";
    return 0;
  }
  return run_group(context, braid_commands());
}

int run(int argc, const char* const* argv) {
  try {
    const auto environment = process_environment();
    const CommandContext context = {
        .arguments = {argv + std::min(argc, 1), argv + argc},
        .program = program_path(),
        .environment = environment,
        .out = std::cout,
        .err = std::cerr,
        .out_columns = terminal_columns(STDOUT_FILENO, environment),
        .err_columns = terminal_columns(STDERR_FILENO, environment),
        .columns_now = [&environment](int descriptor) { return terminal_columns(descriptor, environment); },
        .cores = usable_cores()};
    return with_output_checked(run(context));
  } catch (...) {
    return report_exception("braid", std::cerr);
  }
}

}  // namespace braid::cli
