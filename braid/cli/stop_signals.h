// Signals that ask a command to end: it finishes what it is doing, leaves complete files, and says so.
#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <vector>

namespace braid::cli {

/// While it exists, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are only noted, so that the command can end
/// where nothing is half done. The second of SIGINT, SIGTERM and SIGHUP ends the process at once, as if
/// nobody had asked; SIGUSR1 and SIGUSR2, with which Slurm warns before its SIGTERM, never do. The same
/// request often arrives twice, from Slurm and from the launcher that it was sent to: a signal of another
/// sender within a second of the first is not a second one. What was ignored before (SIGHUP under nohup)
/// stays ignored. One object at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that arrived, if any.
  std::optional<int> seen() const;

 private:
  struct Former {
    int signal = 0;
    struct sigaction action {};
  };
  std::vector<Former> former_;
};

/// "SIGTERM".
std::string signal_name(int signal);

}  // namespace braid::cli
