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

/// Whether members compare their calls before executing them. It costs one message of 32 bytes per
/// collective, and turns mismatched calls, which make Gloo hang or end the process, into a CommError that
/// names them. On GPUs the comparison makes the call itself wait for the other members.
enum class CallCheck { kOn, kOff };

enum class Collective { kAllReduceSum, kReduceScatterSum, kBroadcast, kAllGather, kBarrier };

/// "all_reduce_sum" and so on.
const char* name_of(Collective collective);
std::ostream& operator<<(std::ostream& out, Collective collective);

/// Calls, and bytes that this rank sends to others: each collective documents its formula.
using CollectiveTraffic = Traffic<Collective>;

/// The n members of a group, for collective calls. All methods named after collectives are collective: every
/// member starts the same ones in the same order, from one thread at a time. Several may be in progress; they
/// run one after another in the order of the calls, and may be waited for in any order. In a group of one
/// they complete immediately and nothing is connected.
///
/// A call starts the operation and returns; only its Work tells when the result is available. Until then the
/// tensors must be neither read nor written. They are dense and contiguous and on the group's device (else
/// the call throws ShapeError and nothing is started).
///
/// On CPUs operations run in a thread of the communicator's own, on GPUs on a stream of its own, after the
/// current stream's work so far; NCCL's own watchdog ends a process whose collective exceeds the timeout.
///
/// Errors of an operation are CommErrors of its wait, which name this rank, the axis, the operation, and the
/// time waited or what the peer did. They occur within the timeout, and usually immediately if a peer has
/// died: only a partially transferred message may wait for the full timeout. After an error the communicator
/// is unusable: operations started before or after it fail with that first error.
///
/// The destructor starts nothing, but waits for operations in progress, which takes up to the timeout if a
/// peer does not participate.
class Communicator {
 public:
  /// Connects the group. Collective over it. A store supports one communicator per axis and first rank.
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

  /// Replaces `tensor` with the sum over the members; wait returns it.
  /// Equal shape and dtype on all members; any dtype with addition. Each element is member 0's + member 1's +
  /// ..., in float32 and rounded once at the end for 16-bit dtypes: the same bits on all members, and from
  /// run to run. Moves (N + (n - 2) s) elements each way, of N in the tensor and s in this member's shard: N
  /// / n, plus one on the first N mod n members. With equal shards that is 2 (n - 1) / n times the tensor's
  /// bytes. Uses n s elements of scratch memory (N if n is 2) until it completes. Source: reduce-scatter and
  /// all-gather of Rabenseifner 2004 (https://doi.org/10.1007/978-3-540-24685-5_1), both as direct exchanges,
  /// so that the order of the sum can be chosen; two members exchange all they have at once.
  Work all_reduce_sum(const at::Tensor& tensor);

  /// Replaces `part` with this member's part of the sum of the members' `whole`; wait returns it. The parts
  /// are equal and in the order of the axis: part i is [i N / n, (i + 1) N / n) of the N elements of `whole`.
  /// Equal number of elements, a multiple of n, and dtype on all members. Element by element the same bits as
  /// all_reduce_sum. `whole` is only read.
  /// Moves (n - 1) / n times the bytes of `whole` each way. Uses N elements of scratch memory until it
  /// completes.
  Work reduce_scatter_sum(const at::Tensor& whole, const at::Tensor& part);

  /// Replaces `tensor` with that of member `root`; wait returns it.
  /// Equal shape and dtype on all members.
  /// Moves (n - 1) times its bytes from `root`, counted there, although other members may forward them.
  Work broadcast(const at::Tensor& tensor, int root);

  /// wait returns the members' tensors as one contiguous [n, sizes of `mine`...], in the order of the axis.
  /// Equal shape and dtype on all members.
  /// Moves (n - 1) times the bytes of `mine` each way.
  Work all_gather(const at::Tensor& mine);

  /// Completes `flat`, of whose n equal parts, in the order of the axis, each member has its own; wait
  /// returns it. Equal number of elements, a multiple of n, and dtype on all members. Moves (n - 1) / n times
  /// the bytes of `flat` each way, counted as an all_gather. Uses as many bytes of scratch memory as `flat`
  /// has until it completes, none on GPUs.
  Work all_gather_into(const at::Tensor& flat);

  /// wait returns an undefined tensor, on GPUs as well only after all members have called barrier.
  /// Moves n - 1 bytes each way.
  Work barrier();

  /// The members' strings, which may differ in length, in the order of the axis. For setup: blocks, and pads
  /// all strings to the longest.
  /// Two all_gathers, and counted as such: of one int64, and, unless all strings are empty, of the longest
  /// string's bytes.
  /// Throws CommError like Work::wait.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);

  /// The calls and bytes sent by this rank since the constructor returned. Counted when a call starts; the
  /// messages of CallCheck::kOn are not counted.
  const CollectiveTraffic& traffic() const { return traffic_; }

 private:
  class Channel;
  struct Call;

  Work start(const Call& call, at::Tensor result, std::vector<at::Tensor> scratch,
             std::function<void(Channel&)> exchange);
  Work all_reduce_sum_of_two(const at::Tensor& tensor);
  void require_suitable(Collective collective, const at::Tensor& tensor) const;
  /// Elements of one of the equal parts of `tensor`. Throws ShapeError if there are none.
  int64_t part_numel(Collective collective, const at::Tensor& tensor) const;

  Group group_;
  c10::Device device_;
  CallCheck check_;
  CollectiveTraffic traffic_;
  std::unique_ptr<Channel> channel_;  // none in a group of one
};

}  // namespace braid::comm
