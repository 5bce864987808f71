// Writing to a peer that has died must be an error to handle, not the end of this process.
#pragma once

#include <signal.h>

namespace braid::comm {

/// While it lives, SIGPIPE cannot reach the calling thread, nor, for good, any thread started meanwhile.
/// Gloo and the store write to sockets without asking the kernel to leave the signal out, and its default
/// action would end the process. Changes nothing outside the thread, so that a program may treat the signal
/// as it likes elsewhere.
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
