// `braid launch`: starts the ranks of one node, monitors them, and ends them together.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "braid/launch/environment.h"
#include "braid/launch/options.h"

namespace braid::launch {

/// What the launcher receives from its caller instead of looking it up itself.
struct LaunchContext {
  std::string program{};      // path of braid, which each rank runs unless the command is another program
  Environment environment{};  // what the ranks inherit
  std::function<void(std::string_view)> output{};  // receives what local rank 0 prints, byte for byte
  std::function<void(std::string_view)>
      message{};                              // receives the launcher's own lines, each with its newline
  std::optional<int64_t> terminal_columns{};  // set if `output` is a terminal: its width
  std::optional<int> terminal_fd{};           // that terminal, to be asked for its width
  int64_t cores = 1;                          // shared by this node's ranks

  std::chrono::milliseconds culprit_wait{500};    // after a rank that blames another one
  std::chrono::milliseconds failure_grace{3000};  // from the SIGTERM that follows a failure to SIGKILL
  std::chrono::milliseconds stop_grace{30000};    // from the signal that is forwarded to SIGKILL
};

/// Runs all ranks of this node to their end. Returns 0 if all ended with 0 and were logged, else the exit
/// code of the rank that failed first (128 + signal if a signal killed it), else that of the first that ended
/// because a signal asked it to (also 128 + signal), else kOutputErrorExitCode if a log was lost.
///
/// A rank that fails ends the others: SIGTERM immediately, SIGKILL after failure_grace; it is named with its
/// last lines. A rank that ends with 0 does not affect the others. SIGINT, SIGTERM and SIGHUP are forwarded,
/// and SIGKILL follows after stop_grace or a second one; SIGUSR1 and SIGUSR2, with which Slurm warns before
/// it ends a job, are forwarded and nothing follows. No rank outlives the call, or the calling thread if that
/// is killed: call it from the main thread. Ranks have no standard input.
///
/// Throws ConfigError if the options are invalid, a log cannot be created, the rendezvous port is taken, or
/// the program cannot be started; no rank runs then.
int run_launch(const LaunchOptions& options, const LaunchContext& context);

}  // namespace braid::launch
