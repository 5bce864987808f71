#include "braid/optim/fault_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <functional>
#include <system_error>

namespace braid::optim {
namespace {

/// Guards the list. The handler may spin on it: whoever holds it accesses no guarded memory, hence cannot be
/// waiting for a handler.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

SpinLock list_lock;
FaultGuard* first_guard = nullptr;
struct sigaction outer_action {};

void handle_sigbus(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool absorbed = FaultGuard::absorb(info->si_addr);
  errno = saved_errno;
  if (absorbed) return;
  if ((outer_action.sa_flags & SA_SIGINFO) != 0) {
    outer_action.sa_sigaction(signal, info, context);
  } else if (outer_action.sa_handler != SIG_DFL && outer_action.sa_handler != SIG_IGN) {
    outer_action.sa_handler(signal);
  } else {
    // Blocked until this returns; then it ends the process, as it would have without this handler.
    ::sigaction(SIGBUS, &outer_action, nullptr);
    ::raise(signal);
  }
}

void install_handler() {
  static const bool kInstalled = [] {
    struct sigaction action {};
    action.sa_sigaction = handle_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (::sigaction(SIGBUS, nullptr, &outer_action) != 0 || ::sigaction(SIGBUS, &action, nullptr) != 0)
      throw std::system_error(errno, std::generic_category(), "sigaction");
    return true;
  }();
  (void)kInstalled;
}

}  // namespace

FaultGuard::FaultGuard(std::span<std::byte> memory) : memory_(memory) {
  install_handler();
  const Locked locked(list_lock);
  next_ = first_guard;
  if (next_ != nullptr) next_->previous_ = this;
  first_guard = this;
}

FaultGuard::~FaultGuard() {
  const Locked locked(list_lock);
  (previous_ != nullptr ? previous_->next_ : first_guard) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

bool FaultGuard::absorb(const void* address) {
  const Locked locked(list_lock);
  for (FaultGuard* guard = first_guard; guard != nullptr; guard = guard->next_) {
    std::byte* const begin = guard->memory_.data();
    const size_t bytes = guard->memory_.size();
    const std::less<const void*> before;
    if (before(address, begin) || !before(address, begin + bytes)) continue;
    // Another thread's fault may have been first: what it mapped is replaced by zeros once more, no harm.
    const void* const zeros = ::mmap(begin, bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) return false;
    guard->faulted_ = true;
    return true;
  }
  return false;
}

}  // namespace braid::optim
