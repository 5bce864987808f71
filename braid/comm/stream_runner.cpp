// On GPUs: operations run concurrently with the current stream, and no host thread waits for them.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <utility>

#include "braid/comm/operation.h"

namespace braid::comm::detail {
namespace {

class StreamOperation final : public Operation {
 public:
  StreamOperation(const Task& task, std::exception_ptr failure, c10::Stream stream)
      : result_(task.result),
        tensors_(task.tensors),
        gpu_wait_(task.gpu_wait),
        failure_(std::move(failure)),
        ended_(stream.device_type()) {
    ended_.record(stream);
  }

  at::Tensor wait() override {
    if (failure_) std::rethrow_exception(failure_);
    ended_.block(c10::impl::VirtualGuardImpl(ended_.device_type()).getStream(ended_.device()));
    if (gpu_wait_ == Wait::kHost) ended_.synchronize();
    return std::move(result_);
  }

 private:
  at::Tensor result_;
  std::vector<at::Tensor> tensors_;
  Wait gpu_wait_;
  std::exception_ptr failure_;
  c10::Event ended_;
};

class StreamRunner final : public Runner {
 public:
  StreamRunner(const Group& group, const BackendOptions& options)
      : Runner(group, options),
        device_(options.device.type()),
        stream_(device_.getStreamFromGlobalPool(
            options.device.has_index() ? options.device : device_.getDevice(), /*isHighPriority=*/true)) {}

  std::shared_ptr<Operation> start(Task task) override {
    c10::Event ready(device_.type());
    ready.record(device_.getStream(stream_.device()));
    ready.block(stream_);
    // A Work may be dropped before its operation has completed: the allocator then waits for the stream.
    for (const at::Tensor& tensor : task.tensors) {
      if (tensor.device() == stream_.device()) tensor.record_stream(stream_);
    }
    std::exception_ptr failure;
    {
      const c10::StreamGuard guard(stream_);
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      failure = perform(task);
    }
    return std::make_shared<StreamOperation>(task, std::move(failure), stream_);
  }

 private:
  const c10::impl::VirtualGuardImpl device_;
  const c10::Stream stream_;
};

}  // namespace

std::unique_ptr<Runner> make_stream_runner(const Group& group, const BackendOptions& options) {
  return std::make_unique<StreamRunner>(group, options);
}

}  // namespace braid::comm::detail
