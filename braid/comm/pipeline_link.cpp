#include "braid/comm/pipeline_link.h"

#include <algorithm>
#include <array>
#include <utility>

#include "braid/base/checked.h"
#include "braid/base/error.h"
#include "braid/comm/link_state.h"

namespace braid::comm {
namespace {

constexpr std::array kKindNames = {"activation", "gradient", "tied gradient"};

}  // namespace

std::ostream& operator<<(std::ostream& out, const MessageRoute& route) {
  return out << (route.direction == Direction::kSend ? "to" : "from") << " stage " << route.peer << ": "
             << kKindNames.at(static_cast<size_t>(route.kind));
}

std::vector<Edge> ring_edges(int stages) {
  std::vector<Edge> edges;
  if (stages < 2) return edges;
  for (int stage = 0; stage < stages; ++stage) {
    const int next = (stage + 1) % stages;
    edges.push_back({.from = stage, .to = next});
    edges.push_back({.from = next, .to = stage});
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

Pending::Pending(Pending&& other) noexcept : state_(std::exchange(other.state_, nullptr)), id_(other.id_) {}

Pending& Pending::operator=(Pending&& other) noexcept {
  state_ = std::exchange(other.state_, nullptr);
  id_ = other.id_;
  return *this;
}

void Pending::wait(const std::function<std::string()>& describe) {
  if (!state_) return;
  const std::shared_ptr<detail::LinkState> state = std::exchange(state_, nullptr);
  state->wait(id_, describe);
}

PipelineLink::PipelineLink(const c10::intrusive_ptr<c10d::Store>& store, const Group& group,
                           PipelineLinkOptions options) {
  require<ConfigError>(!options.formats.empty() && options.formats.size() <= 16,
                       "a pipeline link needs 1 to 16 message formats, got ", options.formats.size());
  if (options.edges.empty()) options.edges = ring_edges(group.size());
  std::sort(options.edges.begin(), options.edges.end());
  options.edges.erase(std::unique(options.edges.begin(), options.edges.end()), options.edges.end());
  for (const Edge& edge : options.edges) {
    require<InternalError>(0 <= edge.from && edge.from < group.size() && 0 <= edge.to &&
                               edge.to < group.size() && edge.from != edge.to,
                           "edge from stage ", edge.from, " to stage ", edge.to, " of ", group.size());
  }
  if (group.size() > 1) state_ = std::make_shared<detail::LinkState>(store, group, std::move(options));
}

PipelineLink::~PipelineLink() {
  if (state_) state_->stop_watching();
}

Pending PipelineLink::begin(const MessageRoute& route, const at::Tensor& tensor, int64_t tag) {
  require<InternalError>(state_ != nullptr, "a pipeline of one stage has no messages");
  Pending pending;
  pending.id_ = state_->begin(route, tensor, tag);
  pending.state_ = state_;
  traffic_.add(route, narrow<int64_t>(tensor.nbytes()));
  return pending;
}

Pending PipelineLink::send(const at::Tensor& tensor, int peer, MessageKind kind, int64_t tag) {
  return begin({.direction = Direction::kSend, .peer = peer, .kind = kind}, tensor, tag);
}

Pending PipelineLink::receive(const at::Tensor& into, int peer, MessageKind kind, int64_t tag) {
  return begin({.direction = Direction::kReceive, .peer = peer, .kind = kind}, into, tag);
}

}  // namespace braid::comm
