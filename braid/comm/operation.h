// How a communicator's operations run: in order, concurrently with the caller. Only for communicator.cpp and
// work.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "braid/comm/backend.h"

namespace braid::comm::detail {

/// A collective operation, from its start to its wait.
class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// The result, once it is available (CPU) or ordered before the current stream (GPU). Call at most once.
  /// Throws CommError, or as Runner::perform says.
  virtual at::Tensor wait() = 0;
};

/// An operation that has ended with `result`.
std::shared_ptr<Operation> ended_operation(at::Tensor result);

enum class Wait { kStream, kHost };

/// The work of an operation.
struct Task {
  std::string name;
  std::function<void()> run;        // exchanges, waiting for each
  at::Tensor result;                // undefined if there is none
  std::vector<at::Tensor> tensors;  // what `run` works on
  Wait gpu_wait = Wait::kStream;
};

/// Runs tasks one after another in the order of their start. After a failure all others fail too: with
/// members out of step Gloo would end the process.
class Runner {
 public:
  Runner(Group group, const BackendOptions& options) : group_(std::move(group)), options_(options) {}
  virtual ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  virtual std::shared_ptr<Operation> start(Task task) = 0;

 protected:
  /// Runs a task; if it failed, returns what its wait throws: a CommError, or the out of memory of this rank
  /// as it is, which is no fault of another. Else null.
  std::exception_ptr perform(const Task& task);

  const Group group_;
  const BackendOptions options_;

 private:
  std::optional<std::string> first_failure_;
};

/// Runs tasks in a thread of its own. The destructor returns when all have completed.
std::unique_ptr<Runner> make_thread_runner(const Group& group, const BackendOptions& options);

/// Runs tasks in the calling thread, but on a stream of its own, after the current stream's work so far.
std::unique_ptr<Runner> make_stream_runner(const Group& group, const BackendOptions& options);

}  // namespace braid::comm::detail
