#include "braid/launch/signal_queue.h"

#include <sys/signalfd.h>

namespace braid::launch {

SignalQueue::SignalQueue() {
  sigset_t taken;
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      ::sigaddset(&taken, signal);
  }
  queue_ = take_descriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
  struct sigaction child {};
  child.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &child, &former_child_action_);
  ::pthread_sigmask(SIG_BLOCK, &taken, &former_mask_);
}

SignalQueue::~SignalQueue() {
  while (next()) {
  }  // the pending signals asked for the end that has now come
  ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
  ::sigaction(SIGCHLD, &former_child_action_, nullptr);
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info{};
  ssize_t count = 0;
  do count = ::read(queue_.get(), &info, sizeof info);
  while (count < 0 && errno == EINTR);
  if (count != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace braid::launch
