// Messages between pipeline stages: activations one way, gradients the other.
//
// Each message is matched by sender, receiver, kind, format and tag, so messages may be in flight both ways
// at once, and in any order, also between two ranks only. All edges are connected and tried before the
// constructor returns.
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

namespace braid::comm {

enum class MessageKind {
  kActivation,
  kGradient,      // of a stage's input
  kTiedGradient,  // of the one matrix of tied embeddings, between the model's ends
};

enum class Direction { kSend, kReceive };

/// What messages look like. Gloo ends the process on a message longer than its receiver's buffer and takes
/// a shorter one silently, so both ends agree on the formats before the first message, and each message
/// carries its format's number.
struct MessageFormat {
  at::ScalarType dtype = at::kFloat;
  int64_t numel = 0;

  friend bool operator==(const MessageFormat&, const MessageFormat&) = default;
};

/// A direction in which messages may flow, between indices of the pipeline group.
struct Edge {
  int from = 0;
  int to = 0;

  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// Both directions between each stage and the next, the last and the first included: what looped (VPP) and
/// V-shaped placements need. Ascending and without repeats; empty for one stage.
std::vector<Edge> ring_edges(int stages);

struct PipelineLinkOptions {
  BackendOptions backend;
  std::vector<MessageFormat> formats;  // 1 to 16, the same on all ranks: of training, of evaluation
  std::vector<Edge> edges;             // the same on all ranks; ring_edges(p) if empty
};

/// Where a message goes and what it is, seen from one rank.
struct MessageRoute {
  Direction direction = Direction::kSend;
  int peer = 0;  // index in the pipeline group
  MessageKind kind = MessageKind::kActivation;

  friend auto operator<=>(const MessageRoute&, const MessageRoute&) = default;
};

/// "to stage 1: activation", "from stage 0: tied gradient"
std::ostream& operator<<(std::ostream& out, const MessageRoute& route);

/// Messages and bytes by route: those of the tensors, each counted on both its ends.
using MessageTraffic = Traffic<MessageRoute>;

/// Tags lie in [0, kTagCount). A tag may be used again, even while a message with it is in flight: then
/// order decides.
inline constexpr int64_t kTagCount = int64_t{1} << 24;

namespace detail {
class LinkState;
}

/// A message on its way. Keeps its tensor alive. Dropped without wait (as an exception unwinds), it neither
/// waits nor communicates: the link then keeps message and tensor until it ends itself.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // nothing on its way: wait returns at once
  ~Pending() = default;
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;

  /// CPU: returns once the message has arrived (receive) or its tensor may be changed again (send, which
  /// needs the receiver's receive). GPU: makes the current stream wait for that and returns; NCCL's
  /// watchdog keeps the timeout.
  /// Throws CommError within the link's timeout if the peer does not answer, and within a second or two if
  /// it has died: "rank 1 (pp 1) waited 300.0 s for <describe()> from rank 0 (pp 0): ...". `describe` is
  /// called only then.
  void wait(const std::function<std::string()>& describe);

  /// Whether wait has returned. A backend's progress in between cannot be asked for: Gloo does not tell.
  bool done() const { return state_ == nullptr; }

 private:
  friend class PipelineLink;

  std::shared_ptr<detail::LinkState> state_;
  uint64_t id_ = 0;
};

/// One rank's end of the pipeline's edges. Used from one thread at a time. Before the last rank lets go of
/// its link all ranks should meet (Communicator::barrier), so that no process ends while another still
/// waits for its last message. The destructor sends nothing and does not wait for messages.
class PipelineLink {
 public:
  /// Connects all edges, in ascending order on every rank, and passes one small message over each.
  /// Collective over `group`, whose store must not have seen a link for this axis and first rank before.
  /// Throws CommError naming the missing ranks or the edge that failed; ShapeError, on both ends of an
  /// edge, if their formats differ; ConfigError if there are no formats or more than 16.
  PipelineLink(const c10::intrusive_ptr<c10d::Store>& store, const Group& group, PipelineLinkOptions options);
  ~PipelineLink();
  PipelineLink(const PipelineLink&) = delete;
  PipelineLink& operator=(const PipelineLink&) = delete;

  /// Begins to send `tensor` to stage `peer` and returns. The tensor must not be changed until the message
  /// was waited for. NCCL does not look at tags: there, messages of one edge match in the order of the
  /// calls.
  /// Throws ShapeError unless the tensor is contiguous and of one of the formats, CommError if the link has
  /// failed before. That the peer is gone is for wait to say.
  Pending send(const at::Tensor& tensor, int peer, MessageKind kind, int64_t tag);

  /// Begins to receive into `into` from stage `peer` and returns; as send otherwise.
  Pending receive(const at::Tensor& into, int peer, MessageKind kind, int64_t tag);

  /// The messages since the constructor returned. Counted when send and receive return.
  const MessageTraffic& traffic() const { return traffic_; }

 private:
  Pending begin(const MessageRoute& route, const at::Tensor& tensor, int64_t tag);

  MessageTraffic traffic_;
  std::shared_ptr<detail::LinkState> state_;
};

}  // namespace braid::comm
