#include "braid/cli/stop_signals.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "braid/base/error.h"

namespace braid::cli {
namespace {

constexpr int64_t kSameRequestNanoseconds = 1'000'000'000;

// A handler can reach nothing but what is static; several threads may run it at a time.
std::atomic<int> first_signal = 0;
std::atomic<int> first_demand = 0;  // the first that is not a warning; who sent it, and when
std::atomic<pid_t> first_sender = 0;
std::atomic<int64_t> first_time = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t now_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void take(int signal, siginfo_t* info, void* /*context*/) {
  // The terminal's signals have no sender.
  const pid_t sender = info->si_code == SI_USER || info->si_code == SI_TKILL ? info->si_pid : 0;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (signal == SIGUSR1 || signal == SIGUSR2) return;
  none = 0;
  if (first_demand.compare_exchange_strong(none, signal)) {
    first_time = now_nanoseconds();
    first_sender = sender;
    return;
  }
  if (sender != first_sender && now_nanoseconds() - first_time < kSameRequestNanoseconds) return;
  // Takes effect when the handler returns: the signal is blocked meanwhile.
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  first_demand = 0;
  struct sigaction action {};
  action.sa_sigaction = take;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    Former former = {.signal = signal};
    ::sigaction(signal, nullptr, &former.action);
    if (former.action.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
    former_.push_back(former);
  }
}

StopSignals::~StopSignals() {
  for (const Former& former : former_) ::sigaction(former.signal, &former.action, nullptr);
}

std::optional<int> StopSignals::seen() const {
  const int signal = first_signal;
  return signal == 0 ? std::nullopt : std::optional(signal);
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? cat("signal ", signal) : cat("SIG", name);
}

}  // namespace braid::cli
