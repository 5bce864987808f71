// Signals as data: taken one by one from a queue, never by a handler.
#pragma once

#include <signal.h>

#include <optional>

#include "braid/launch/file_descriptor.h"

namespace braid::launch {

/// During its lifetime, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGCHLD are blocked in the calling
/// thread and go to the queue. A signal that was ignored (nohup, a background job) stays ignored, except
/// SIGCHLD, which is set to its default so that children can be reaped.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// Becomes readable when a signal is pending; for poll.
  int descriptor() const { return queue_.get(); }

  /// The next pending signal; nothing if there is none. Does not block.
  std::optional<int> next();

  /// The signals that were blocked before; for children, which inherit the mask.
  const sigset_t& former_mask() const { return former_mask_; }

 private:
  sigset_t former_mask_{};
  struct sigaction former_child_action_ {};
  FileDescriptor queue_;
};

}  // namespace braid::launch
