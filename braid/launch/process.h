// A child process that cannot outlive this process.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "braid/launch/environment.h"
#include "braid/launch/file_descriptor.h"

namespace braid::launch {

struct ProcessSpec {
  std::string program{};                 // a path; PATH is not searched
  std::vector<std::string> arguments{};  // without the program's name
  Environment environment{};
  std::optional<int>
      inherited_fd{};  // kept open under the same number; all others except 0, 1 and 2 are closed
  std::optional<int> terminal_fd{};  // the same for a terminal
  sigset_t signal_mask{};            // the child's blocked signals
};

struct Process {
  pid_t pid = 0;
  FileDescriptor output{};  // its stdout and stderr, in the order of the writes; reads do not block
};

/// Starts a child in a process group of its own, with empty standard input. The kernel kills it with SIGKILL
/// when the calling thread ends for any reason: call it from a thread that lives as long as the child should
/// (the main one). The caller reaps it. Throws ConfigError if the program cannot be executed,
/// std::system_error if the system lacks resources.
Process start_process(const ProcessSpec& spec);

/// How a process ended.
struct Ending {
  int exit_code = 0;            // as in a shell: 128 + signal for a signal
  std::optional<int> signal{};  // the signal that killed it
};

/// The ending of child `pid` if it has ended, else nothing. In the first case the rest of its process group
/// is killed and the child is reaped, which frees its pid.
std::optional<Ending> reap(pid_t pid);

}  // namespace braid::launch
