// Collective operations over one line of a mesh axis.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "braid/comm/backend.h"
#include "braid/comm/traffic.h"
#include "braid/comm/work.h"

namespace braid::comm {

/// Whether members compare what they are about to do before they do it. It costs one message of 32 bytes a
/// collective, and turns calls that do not match, which Gloo answers with a hang or the end of the process,
/// into a CommError that names them. On GPUs the comparison makes the call itself wait for the other members.
enum class CallCheck { kOn, kOff };

enum class Collective { kAllReduceSum, kBroadcast, kAllGather, kBarrier };

/// "all_reduce_sum" and so on.
const char* name_of(Collective collective);
std::ostream& operator<<(std::ostream& out, Collective collective);

/// Calls, and bytes that this rank sends to others: each collective's formula stands with it.
using CollectiveTraffic = Traffic<Collective>;

/// The n members of a group, for collective calls. All methods named like collectives are: every member
/// starts the same ones in the same order, from one thread at a time. Several may be under way; they run one
/// after another in the order of the calls, and may be waited for in any. In a group of one they end at once
/// and nothing is connected.
///
/// A call starts the operation and returns; only its Work says when the result is there. Until then
/// the tensors must be neither read nor written. They are dense and contiguous, of the group's device (else
/// the call throws ShapeError and nothing is started).
///
/// On CPUs operations run in a thread of the communicator's own, on GPUs on a stream of its own, after the
/// current stream's work so far; NCCL's own watchdog ends a process whose collective overstays the timeout.
///
/// Errors of an operation are CommErrors of its wait, which name this rank, the axis, the operation, and the
/// time waited or what the peer did. They come within the timeout, and mostly at once where a peer has died:
/// only a message of which a part had already gone may sit the timeout out. After one the communicator is
/// unusable: operations started before or after it fail with that first error.
///
/// The destructor starts nothing, but lets operations under way end, which takes up to the timeout if a peer
/// does not join in.
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

  /// Replaces `tensor` by the sum over the members; wait returns it.
  /// Of equal shape and dtype on all members, any dtype that adds. Each element is member 0's + member 1's +
  /// ..., every addition rounded to the dtype: the same bits on all members, and from run to run.
  /// Moves (N + (n - 2) s) elements each way, of N in the tensor and s in this member's shard: N / n, and one
  /// more on the first N mod n members. With equal shards that is 2 (n - 1) / n times the tensor's bytes.
  /// Keeps n s elements of scratch until it has ended.
  /// Source: reduce-scatter and all-gather of Rabenseifner 2004
  /// (https://doi.org/10.1007/978-3-540-24685-5_1), both as direct exchanges, so that the order of the sum is
  /// free.
  Work all_reduce_sum(const at::Tensor& tensor);

  /// Replaces `tensor` by that of member `root`; wait returns it.
  /// Of equal shape and dtype on all members.
  /// Moves (n - 1) times its bytes from `root`, counted there, although other members may pass them on.
  Work broadcast(const at::Tensor& tensor, int root);

  /// wait returns the members' tensors in one contiguous [n, sizes of `mine`...], in the order of the axis.
  /// Of equal shape and dtype on all members.
  /// Moves (n - 1) times the bytes of `mine` each way.
  Work all_gather(const at::Tensor& mine);

  /// wait returns an undefined tensor, on GPUs too not before all members have called barrier.
  /// Moves n - 1 bytes each way.
  Work barrier();

  /// The members' strings, which may differ in length, in the order of the axis. For set-up: blocks, and
  /// pads all strings to the longest.
  /// Two all_gathers, and counted as such: of one int64, and, unless all strings are empty, of the longest
  /// string's bytes.
  /// Throws CommError as Work::wait.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);

  /// What this rank has called and sent since the constructor returned. Counted when a call starts; the
  /// messages of CallCheck::kOn are not counted.
  const CollectiveTraffic& traffic() const { return traffic_; }

 private:
  class Channel;
  struct Call;

  Work start(const Call& call, at::Tensor result, std::vector<at::Tensor> scratch,
             std::function<void(Channel&)> exchange);
  void require_suitable(Collective collective, const at::Tensor& tensor) const;

  Group group_;
  c10::Device device_;
  CallCheck check_;
  CollectiveTraffic traffic_;
  std::unique_ptr<Channel> channel_;  // none in a group of one
};

}  // namespace braid::comm
