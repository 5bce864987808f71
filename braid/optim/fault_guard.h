// Memory-mapped files whose disk or file may fail while they are in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace braid::optim {

/// While it exists, an access to `memory` that the system cannot serve (a failed disk, a truncated file, no
/// space for a copy-on-write block) does not end the process with SIGBUS: zeros replace all of `memory`, and
/// faulted() is true from then on. SIGBUS for any other memory has the effect that it had before.
///
/// The first guard installs a handler of SIGBUS for the rest of the process, since a signal's handler is the
/// process's. `memory` consists of whole pages, writable, and stays mapped.
class FaultGuard {
 public:
  explicit FaultGuard(std::span<std::byte> memory);
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  bool faulted() const { return faulted_; }

  /// For the handler: replaces the guarded memory that contains `address` by zeros, and returns whether there
  /// is any. Safe in a signal handler.
  static bool absorb(const void* address);

 private:
  std::span<std::byte> memory_;
  std::atomic<bool> faulted_ = false;
  FaultGuard* previous_ = nullptr;
  FaultGuard* next_ = nullptr;
};

}  // namespace braid::optim
