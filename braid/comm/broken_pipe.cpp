#include "braid/comm/broken_pipe.h"

#include <ctime>

namespace braid::comm {
namespace {

sigset_t broken_pipe_only() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool is_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

BrokenPipeGuard::BrokenPipeGuard() {
  const sigset_t set = broken_pipe_only();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  was_pending_ = is_pending();
}

BrokenPipeGuard::~BrokenPipeGuard() {
  if (!was_pending_ && is_pending()) {
    const sigset_t set = broken_pipe_only();
    const timespec now = {};
    sigtimedwait(&set, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace braid::comm
