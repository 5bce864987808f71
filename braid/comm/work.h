// A collective operation in progress.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace braid::comm {

class Communicator;

namespace detail {
class Operation;
}

/// Returned by every collective: a handle to wait for it, and its result.
///
/// Keeps the operation's tensors alive until wait returns. The destructor neither waits nor communicates nor
/// throws: an operation that is not waited for continues, as the other members need it, and its tensors live
/// until it completes. May outlive its communicator. A moved-from Work is empty.
class [[nodiscard]] Work {
 public:
  Work() = default;  // empty: nothing in progress
  ~Work() = default;
  Work(Work&&) noexcept = default;
  Work& operator=(Work&&) noexcept = default;

  /// The operation's result, as documented by the collective; an undefined tensor if empty, as after the
  /// first wait.
  /// CPU (host-wait): returns when the result is available. GPU (stream-wait): makes the current stream wait
  /// for the result and returns.
  /// Throws CommError, within the communicator's timeout counted from when the operation's turn came, if it
  /// failed: "rank 1 (dp 1): all_reduce_sum over ranks 0, 1 failed after 300.0 s (timeout 300 s): ...".
  at::Tensor wait();

  /// Whether there is nothing left to wait for.
  bool done() const { return operation_ == nullptr; }

 private:
  friend class Communicator;
  explicit Work(std::shared_ptr<detail::Operation> operation) : operation_(std::move(operation)) {}

  std::shared_ptr<detail::Operation> operation_;
};

}  // namespace braid::comm
