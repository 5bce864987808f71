// Messages between pipeline stages: activations in one direction, gradients in the other.
//
// Each message is matched by sender, receiver, kind, format and tag, so messages may be in flight in both
// directions at once and in any order, even between just two ranks. All edges are connected and tested before
// the constructor returns.
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
  kTiedGradient,  // of the shared matrix of tied embeddings, between the model's ends
};

enum class Direction { kSend, kReceive };

/// The format of a message. Gloo ends the process on a message longer than its receiver's buffer and accepts
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

/// Both directions between each stage and the next, including the last and the first: what looped (VPP) and
/// V-shaped placements need. Ascending and without duplicates; empty for one stage.
std::vector<Edge> ring_edges(int stages);

struct PipelineLinkOptions {
  BackendOptions backend;
  std::vector<MessageFormat> formats;  // 1 to 16, the same on all ranks: of training, of evaluation
  std::vector<Edge> edges;             // the same on all ranks; ring_edges(p) if empty
};

/// A message's direction, peer and kind, as seen from one rank.
struct MessageRoute {
  Direction direction = Direction::kSend;
  int peer = 0;  // index in the pipeline group
  MessageKind kind = MessageKind::kActivation;

  friend auto operator<=>(const MessageRoute&, const MessageRoute&) = default;
};

/// "to stage 1: activation", "from stage 0: tied gradient"
std::ostream& operator<<(std::ostream& out, const MessageRoute& route);

/// Messages and bytes by route: only those of the tensors, each counted at both ends.
using MessageTraffic = Traffic<MessageRoute>;

/// Tags are in [0, kTagCount). A tag may be reused, even while a message with it is in flight: messages then
/// match in order.
inline constexpr int64_t kTagCount = int64_t{1} << 24;

namespace detail {
class LinkState;
}

/// A message in flight. Keeps its tensor alive. If dropped without wait (when an exception unwinds), it
/// neither waits nor communicates: the link then keeps message and tensor until its own end.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // nothing in flight: wait returns immediately
  ~Pending() = default;
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;

  /// CPU: returns once the message has arrived (receive) or its tensor may be modified again (send, which
  /// needs the peer's receive). GPU: makes the current stream wait for that and returns; NCCL's watchdog
  /// enforces the timeout.
  /// Throws CommError within the link's timeout if the peer does not answer, and within a second or two if
  /// it has died: "rank 1 (pp 1) waited 300.0 s for <describe()> from rank 0 (pp 0): ...". `describe` is
  /// called only then.
  void wait(const std::function<std::string()>& describe);

  /// Whether wait has returned. Gloo provides no way to query a message's progress before that.
  bool done() const { return state_ == nullptr; }

 private:
  friend class PipelineLink;

  std::shared_ptr<detail::LinkState> state_;
  uint64_t id_ = 0;
};

/// One rank's end of the pipeline's edges. Used from one thread at a time. Before any rank destroys its link,
/// all ranks should synchronise (Communicator::barrier), so that no process ends while another still waits
/// for its last message. The destructor sends nothing and does not wait for messages.
class PipelineLink {
 public:
  /// Connects all edges, in ascending order on every rank, and sends one small message over each.
  /// Collective over `group`, whose store must not have seen a link for this axis and first rank before.
  /// Throws CommError naming the missing ranks or the edge that failed; ShapeError, on both ends of an
  /// edge, if their formats differ; ConfigError if there are no formats or more than 16.
  PipelineLink(const c10::intrusive_ptr<c10d::Store>& store, const Group& group, PipelineLinkOptions options);
  ~PipelineLink();
  PipelineLink(const PipelineLink&) = delete;
  PipelineLink& operator=(const PipelineLink&) = delete;

  /// Starts sending `tensor` to stage `peer` and returns. The tensor must not be modified until wait has
  /// returned. NCCL ignores tags: there, messages of one edge match in the order of the calls.
  /// Throws ShapeError unless the tensor is contiguous and of one of the formats, CommError if the link
  /// failed earlier. A peer that is gone is reported by wait.
  Pending send(const at::Tensor& tensor, int peer, MessageKind kind, int64_t tag);

  /// Starts receiving into `into` from stage `peer` and returns; otherwise like send.
  Pending receive(const at::Tensor& into, int peer, MessageKind kind, int64_t tag);

  /// The messages since the constructor returned, counted when send and receive return.
  const MessageTraffic& traffic() const { return traffic_; }

 private:
  Pending begin(const MessageRoute& route, const at::Tensor& tensor, int64_t tag);

  MessageTraffic traffic_;
  std::shared_ptr<detail::LinkState> state_;
};

}  // namespace braid::comm
