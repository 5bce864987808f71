#include "braid/comm/communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "braid/base/checked.h"
#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/error_text.h"

namespace braid::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kCallNames = {"all_reduce_sum", "broadcast", "all_gather", "all_gather_bytes",
                                   "barrier"};

std::string ranks_text(const Group& group) {
  std::string text;
  for (const int rank : group.ranks) text += cat(text.empty() ? "" : ", ", rank);
  return text;
}

std::string call_text(const int64_t* fields) {
  const auto call = static_cast<size_t>(fields[0]);
  if (call >= kCallNames.size()) return "an unknown operation";
  std::string text = kCallNames[call];
  if (fields[2] >= 0)
    text += cat(" of ", fields[2], " x ", c10::toString(static_cast<at::ScalarType>(fields[1])));
  if (fields[3] >= 0) text += cat(" from member ", fields[3]);
  return text;
}

}  // namespace

Communicator::Communicator(const c10::intrusive_ptr<c10d::Store>& store, Group group,
                           const BackendOptions& options, CallCheck check)
    : group_(std::move(group)), device_(options.device), timeout_(options.timeout), check_(check) {
  if (group_.size() == 1) return;
  backend_ =
      connect_backend(store, cat("communicator/", group_.axis, "/", group_.ranks.front()), group_, options);
  try {
    barrier();  // NCCL connects at its first call: better here, where the error says so
  } catch (const CommError& error) {
    throw CommError(cat("connecting the ", group_.axis, " group: ", error.what()));
  }
}

Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;

void Communicator::fail(const char* what, Clock::time_point begin, const std::exception& error) const {
  const std::chrono::duration<double> waited = Clock::now() - begin;
  throw CommError(cat(member_name(group_, group_.index), ": ", what, " over ranks ", ranks_text(group_),
                      " failed after ", fixed(waited.count(), 1), " s (timeout ",
                      static_cast<double>(timeout_.count()) / 1000.0, " s): ", short_reason(error),
                      "; see the logs of the other ranks"));
}

void Communicator::finish(const c10::intrusive_ptr<c10d::Work>& work, const char* what,
                          Clock::time_point begin) const {
  if (device_.is_cuda()) {
    work->wait();
    return;
  }
  // Gloo's own timeout names the reason; ours, a little later, is for what it might miss.
  const bool done = work->wait(timeout_ + std::chrono::milliseconds(2000));
  if (!done) fail(what, begin, std::runtime_error("aborted"));
}

std::vector<at::Tensor> Communicator::gather(const at::Tensor& tensor, const char* what) const {
  const Clock::time_point begin = Clock::now();
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int i = 0; i < size(); ++i) outputs.front().push_back(at::empty_like(tensor));
  std::vector<at::Tensor> inputs = {tensor};
  try {
    finish(backend_->allgather(outputs, inputs), what, begin);
  } catch (const std::exception& error) {
    fail(what, begin, error);
  }
  return std::move(outputs.front());
}

void Communicator::check_call(Call call, const at::Tensor& tensor, int root) const {
  const char* const what = kCallNames[static_cast<size_t>(call)];
  if (tensor.defined()) {
    require<ShapeError>(tensor.is_contiguous() && tensor.layout() == at::kStrided, what,
                        " needs a contiguous tensor, got sizes ", tensor.sizes(), " with strides ",
                        tensor.is_sparse() ? at::IntArrayRef() : tensor.strides());
    require<ShapeError>(tensor.device().type() == device_.type(), what, " over the ", group_.axis,
                        " axis needs a tensor on ", device_.str(), ", got one on ", tensor.device().str());
  }
  if (check_ == CallCheck::kOff) return;
  at::Tensor own = at::empty({4}, at::kLong);
  int64_t* fields = own.mutable_data_ptr<int64_t>();
  fields[0] = static_cast<int64_t>(call);
  fields[1] = tensor.defined() ? static_cast<int64_t>(tensor.scalar_type()) : -1;
  fields[2] = tensor.defined() ? tensor.numel() : -1;
  fields[3] = root;
  std::vector<at::Tensor> calls = gather(own.to(device_), what);
  for (int i = 0; i < size(); ++i) {
    const at::Tensor theirs = calls[static_cast<size_t>(i)].cpu();
    const int64_t* their_fields = theirs.const_data_ptr<int64_t>();
    require<CommError>(std::equal(fields, fields + 4, their_fields), "the ranks of the ", group_.axis,
                       " group do not do the same: ", member_name(group_, group_.index), " calls ",
                       call_text(fields), ", ", member_name(group_, i), " calls ", call_text(their_fields));
  }
}

void Communicator::all_reduce_sum(at::Tensor& tensor) {
  if (!backend_) return;
  check_call(Call::kAllReduceSum, tensor, -1);
  if (tensor.numel() == 0) return;
  const Clock::time_point begin = Clock::now();
  try {
    std::vector<at::Tensor> tensors = {tensor};
    finish(backend_->allreduce(tensors), "all_reduce_sum", begin);
  } catch (const std::exception& error) {
    fail("all_reduce_sum", begin, error);
  }
}

void Communicator::broadcast(at::Tensor& tensor, int root) {
  require<InternalError>(0 <= root && root < size(), "broadcast from member ", root, " of ", size());
  if (!backend_) return;
  check_call(Call::kBroadcast, tensor, root);
  if (tensor.numel() == 0) return;
  const Clock::time_point begin = Clock::now();
  try {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    finish(backend_->broadcast(tensors, options), "broadcast", begin);
  } catch (const std::exception& error) {
    fail("broadcast", begin, error);
  }
}

std::vector<at::Tensor> Communicator::all_gather(const at::Tensor& tensor) {
  if (!backend_) return {tensor.clone()};
  check_call(Call::kAllGather, tensor, -1);
  if (tensor.numel() == 0)
    return std::vector<at::Tensor>(static_cast<size_t>(size()), at::empty_like(tensor));
  return gather(tensor, "all_gather");
}

std::vector<std::string> Communicator::all_gather_bytes(const std::string& bytes) {
  if (!backend_) return {bytes};
  check_call(Call::kAllGatherBytes, {}, -1);
  const auto length = narrow<int64_t>(bytes.size());
  std::vector<int64_t> lengths;
  for (const at::Tensor& one :
       gather(at::full({1}, length, at::TensorOptions(at::kLong).device(device_)), "all_gather_bytes")) {
    lengths.push_back(one.item<int64_t>());
  }
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> result(lengths.size());
  if (longest == 0) return result;
  at::Tensor padded = at::zeros({longest}, at::kByte);
  std::memcpy(padded.mutable_data_ptr<uint8_t>(), bytes.data(), bytes.size());
  const std::vector<at::Tensor> all = gather(padded.to(device_), "all_gather_bytes");
  for (size_t i = 0; i < result.size(); ++i) {
    const at::Tensor one = all[i].cpu();
    result[i].assign(reinterpret_cast<const char*>(one.const_data_ptr<uint8_t>()),
                     static_cast<size_t>(lengths[i]));
  }
  return result;
}

void Communicator::barrier() {
  if (!backend_) return;
  check_call(Call::kBarrier, {}, -1);
  const Clock::time_point begin = Clock::now();
  try {
    std::vector<at::Tensor> one = {at::ones({1}, at::TensorOptions(at::kFloat).device(device_))};
    finish(backend_->allreduce(one), "barrier", begin);
    if (device_.is_cuda()) one.front().item<float>();
  } catch (const std::exception& error) {
    fail("barrier", begin, error);
  }
}

}  // namespace braid::comm
