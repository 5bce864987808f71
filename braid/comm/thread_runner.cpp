// On CPUs: Gloo's collectives and the sums between them run in a thread other than the caller's.
#include <ATen/core/LegacyTypeDispatch.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "braid/comm/broken_pipe.h"
#include "braid/comm/operation.h"

namespace braid::comm::detail {
namespace {

class HostOperation final : public Operation {
 public:
  explicit HostOperation(at::Tensor result) : result_(std::move(result)) {}

  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    ended_ = true;
    changed_.notify_all();
  }

  at::Tensor wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    if (failure_) std::rethrow_exception(failure_);
    return std::move(result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr failure_;
  at::Tensor result_;
};

class ThreadRunner final : public Runner {
 public:
  ThreadRunner(const Group& group, const BackendOptions& options)
      : Runner(group, options), thread_([this] { run(); }) {}

  ~ThreadRunner() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  std::shared_ptr<Operation> start(Task task) override {
    auto operation = std::make_shared<HostOperation>(task.result);
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({std::move(task), operation});
    }
    changed_.notify_all();
    return operation;
  }

 private:
  struct Entry {
    Task task;
    std::shared_ptr<HostOperation> operation;
  };

  void run() {
    const BrokenPipeGuard no_signal;
    const at::AutoDispatchBelowADInplaceOrView no_autograd;  // whatever the modes of the caller's thread
    while (std::optional<Entry> entry = next()) {
      std::exception_ptr failure = perform(entry->task);
      // Released before completion is signalled, so that the caller's memory counts are right after wait.
      entry->task = {};
      entry->operation->end(std::move(failure));
    }
  }

  std::optional<Entry> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return std::nullopt;
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    return entry;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<Runner> make_thread_runner(const Group& group, const BackendOptions& options) {
  return std::make_unique<ThreadRunner>(group, options);
}

}  // namespace braid::comm::detail
