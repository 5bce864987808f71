// Turns a write to a peer that has died into an error to handle instead of the end of this process.
#pragma once

#include <signal.h>

namespace braid::comm {

/// During its lifetime, SIGPIPE cannot reach the calling thread; threads started meanwhile are protected
/// permanently. Gloo and the store write to sockets without suppressing the signal, whose default action
/// would end the process. Changes nothing outside the thread, so that the program may handle the signal as it
/// likes elsewhere.
class BrokenPipeGuard {
 public:
  BrokenPipeGuard();
  ~BrokenPipeGuard();
  BrokenPipeGuard(const BrokenPipeGuard&) = delete;
  BrokenPipeGuard& operator=(const BrokenPipeGuard&) = delete;

 private:
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace braid::comm
