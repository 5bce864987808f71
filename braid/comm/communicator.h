// Collective operations over one line of a mesh axis.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "braid/comm/backend.h"

namespace braid::comm {

/// Whether members compare what they are about to do before they do it. It costs one message of 32 bytes a
/// collective, and turns calls that do not match, which Gloo answers with a hang or the end of the process,
/// into a CommError that names them.
enum class CallCheck { kOn, kOff };

/// The members of a group, for collective calls. All methods are collective: every member calls the same ones
/// in the same order, from one thread at a time. In a group of one they return at once and nothing is
/// connected.
///
/// On CPUs they return when the result is there. On GPUs they order the result after the current stream, and
/// what returns values to the host waits for it; NCCL's own watchdog ends a process whose collective
/// overstays the timeout. Tensors are dense and contiguous, of the group's device (else ShapeError).
///
/// Errors are CommErrors that name this rank, the axis, the operation, and the time waited or what the peer
/// did; after one the group is of no more use. They come within the timeout, and mostly at once where a peer
/// has died: only a message of which a part had already gone may sit the timeout out. The destructor sends
/// nothing; after an error it may take up to the timeout.
class Communicator {
 public:
  /// Connects the group. Collective over it. One communicator per axis and first rank may be made from a
  /// store.
  /// Throws CommError naming the members that did not arrive within options.timeout.
  Communicator(const c10::intrusive_ptr<c10d::Store>& store, Group group, const BackendOptions& options,
               CallCheck check = CallCheck::kOn);
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const Group& group() const { return group_; }
  int index() const { return group_.index; }
  int size() const { return group_.size(); }

  /// Replaces `tensor`, of equal shape on all members, by the sum over them, in a fixed order:
  /// bit-identical on all of them and from run to run. Moves 2 (n - 1) / n times its bytes each way.
  void all_reduce_sum(at::Tensor& tensor);

  /// Replaces `tensor` by that of member `root`.
  void broadcast(at::Tensor& tensor, int root);

  /// The members' tensors, of equal shape, in the order of the axis.
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor);

  /// The members' strings, which may differ in length, in the order of the axis.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);

  /// Returns when all members have called it.
  void barrier();

 private:
  enum class Call : int64_t { kAllReduceSum, kBroadcast, kAllGather, kAllGatherBytes, kBarrier };

  void check_call(Call call, const at::Tensor& tensor, int root) const;
  std::vector<at::Tensor> gather(const at::Tensor& tensor, const char* what) const;
  void finish(const c10::intrusive_ptr<c10d::Work>& work, const char* what,
              std::chrono::steady_clock::time_point begin) const;
  [[noreturn]] void fail(const char* what, std::chrono::steady_clock::time_point begin,
                         const std::exception& error) const;

  Group group_;
  c10::Device device_;
  std::chrono::milliseconds timeout_;
  CallCheck check_;
  c10::intrusive_ptr<c10d::Backend> backend_;  // none in a group of one
};

}  // namespace braid::comm
