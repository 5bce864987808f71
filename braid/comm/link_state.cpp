#include "braid/comm/link_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"
#include "braid/comm/broken_pipe.h"
#include "braid/comm/error_text.h"

namespace braid::comm::detail {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostFormats = 16;

// Gloo has 31-bit tags: upwards | kind (2) | format (4) | tag (24). The kinds leave one value for the link's
// own messages.
constexpr int kFormatShift = 24;
constexpr int kKindShift = 28;
constexpr int kUpwardsBit = 1 << 30;
constexpr int kControlKind = 3;
constexpr int kHelloTag = kControlKind << kKindShift;
constexpr int kWatchTag = kHelloTag | 1;
static_assert(kTagCount == 1 << kFormatShift);
static_assert(kMostFormats == 1 << (kKindShift - kFormatShift));
static_assert(static_cast<int>(MessageKind::kTiedGradient) < kControlKind);

// One year: the watch outlasts the run, and the library can add it to the current time without overflow.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);

constexpr int64_t kHelloMark = 0x6272616964;
constexpr int64_t kHelloFields = 4 + 2 * static_cast<int64_t>(kMostFormats);

std::string formats_text(const std::vector<MessageFormat>& formats) {
  std::string text;
  for (const MessageFormat& format : formats) {
    text += cat(text.empty() ? "" : ", ", format.numel, " x ", c10::toString(format.dtype));
  }
  return text;
}

// {mark, from, to, count, dtype and numel of each format}: of the same size for all formats, so it cannot
// overrun.
std::vector<int64_t> hello(const Edge& edge, const std::vector<MessageFormat>& formats) {
  std::vector<int64_t> fields = {kHelloMark, edge.from, edge.to, static_cast<int64_t>(formats.size())};
  for (const MessageFormat& format : formats) {
    fields.push_back(static_cast<int64_t>(format.dtype));
    fields.push_back(format.numel);
  }
  fields.resize(kHelloFields, 0);
  return fields;
}

std::vector<MessageFormat> formats_of(const std::vector<int64_t>& fields) {
  std::vector<MessageFormat> formats(std::clamp<size_t>(static_cast<size_t>(fields[3]), 0, kMostFormats));
  for (size_t i = 0; i < formats.size(); ++i) {
    formats[i] = {.dtype = static_cast<at::ScalarType>(fields[4 + 2 * i]), .numel = fields[5 + 2 * i]};
  }
  return formats;
}

}  // namespace

LinkState::LinkState(const c10::intrusive_ptr<c10d::Store>& store, const Group& group,
                     PipelineLinkOptions options)
    : group_(group), options_(std::move(options)) {
  connect(store);
  try_edges();
  if (options_.backend.device.is_cpu()) watch_neighbours();
}

LinkState::~LinkState() {
  stop_watching();
  in_flight_.clear();  // before the backends, which their buffers refer to
}

void LinkState::connect(const c10::intrusive_ptr<c10d::Store>& store) {
  const std::string key = cat("pipeline_link/", group_.axis, "/", group_.ranks.front());
  c10::intrusive_ptr<c10d::Backend> mesh;
  if (options_.backend.device.is_cpu()) mesh = connect_backend(store, key, group_, options_.backend);
  for (const Edge& edge : options_.edges) {
    if (edge.from != group_.index && edge.to != group_.index) continue;
    const bool sends = edge.from == group_.index;
    const int peer = sends ? edge.to : edge.from;
    Channel channel = {.backend = mesh, .peer_in_backend = peer};
    if (!mesh) {
      // NCCL has no tags and processes one communicator's messages in order, so each direction has its own.
      const Group pair = {
          .axis = cat(group_.axis, " edge ", edge.from, "->", edge.to),
          .ranks = {group_.ranks[static_cast<size_t>(edge.from)], group_.ranks[static_cast<size_t>(edge.to)]},
          .index = sends ? 0 : 1};
      channel = {
          .backend = connect_backend(store, cat(key, "/", edge.from, "-", edge.to), pair, options_.backend),
          .peer_in_backend = sends ? 1 : 0};
    }
    channels_[{peer, sends ? Direction::kSend : Direction::kReceive}] = std::move(channel);
  }
}

void LinkState::try_edges() {
  for (const Edge& edge : options_.edges) {
    if (edge.from == group_.index || edge.to == group_.index) try_edge(edge);
  }
  // Only now, so that the other end has received the difference as well.
  require<ShapeError>(mismatch_.empty(), mismatch_);
}

void LinkState::try_edge(const Edge& edge) {
  const std::string name =
      cat("the edge from ", member_name(group_, edge.from), " to ", member_name(group_, edge.to));
  std::vector<int64_t> fields = hello(edge, options_.formats);
  const at::Tensor message = at::tensor(fields, at::kLong).to(options_.backend.device);
  const bool sends = edge.from == group_.index;
  const Clock::time_point begin = Clock::now();
  try {
    const auto work =
        post(sends ? Direction::kSend : Direction::kReceive, message, sends ? edge.to : edge.from, kHelloTag);
    if (!work->wait(options_.backend.timeout)) throw std::runtime_error("aborted");
  } catch (const std::exception& error) {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    throw CommError(cat(member_name(group_, group_.index), ": ", name, " does not work (tried for ",
                        fixed(waited.count(), 1), " s): ", short_reason(error),
                        "; see the log of the rank at its other end"));
  }
  if (sends) return;
  const at::Tensor arrived = message.cpu();
  fields.assign(arrived.const_data_ptr<int64_t>(), arrived.const_data_ptr<int64_t>() + kHelloFields);
  require<CommError>(fields[0] == kHelloMark && fields[1] == edge.from && fields[2] == edge.to, name,
                     " delivered something other than the greeting of that edge");
  const std::vector<MessageFormat> theirs = formats_of(fields);
  if (theirs != options_.formats) {
    mismatch_ += cat(mismatch_.empty() ? "" : "; ", name, ": the sender's messages are ",
                     formats_text(theirs), ", the receiver's ", formats_text(options_.formats));
  }
}

void LinkState::watch_neighbours() {
  std::set<int> peers;
  for (const auto& [key, channel] : channels_) peers.insert(key.first);
  try {
    for (const int peer : peers) {
      // The channel of either direction will do: Gloo connects pairs.
      const auto channel = channels_.lower_bound({peer, Direction::kSend});
      std::vector<at::Tensor> unused = {at::empty({1}, at::kByte)};
      Watch& watched = watches_[peer];
      watched.work = channel->second.backend->recv(unused, peer, kWatchTag);
      watched.thread = std::thread([this, peer, work = watched.work] { watch(peer, *work); });
    }
  } catch (const std::exception& error) {
    std::erase_if(watches_, [](const auto& entry) { return !entry.second.work; });
    stop_watching();
    // This process can start no thread or has no memory: no fault of a neighbour.
    if (is_out_of_memory(error) || dynamic_cast<const std::system_error*>(&error) != nullptr) throw;
    throw CommError(cat(member_name(group_, group_.index),
                        " lost a neighbour while connecting the pipeline: ", short_reason(error)));
  }
}

void LinkState::watch(int peer, c10d::Work& work) {
  std::string how = "the watch ended";
  try {
    work.wait(kForever);
  } catch (const std::exception& error) {
    how = short_reason(error);
  }
  std::vector<c10::intrusive_ptr<c10d::Work>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    gone_[peer] = how;
    for (const auto& [id, message] : in_flight_) {
      if (message.route.peer == peer && message.work) waiting.push_back(message.work);
    }
  }
  for (const auto& one : waiting) one->abort();
}

void LinkState::stop_watching() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (auto& [peer, watched] : watches_) watched.work->abort();
  for (auto& [peer, watched] : watches_) {
    if (watched.thread.joinable()) watched.thread.join();
  }
  watches_.clear();
}

int LinkState::wire_tag(const MessageRoute& route, const at::Tensor& tensor, int64_t tag) const {
  require<InternalError>(0 <= tag && tag < kTagCount, "message tag ", tag, " is not in [0, ", kTagCount, ")");
  const MessageFormat format = {.dtype = tensor.scalar_type(), .numel = tensor.numel()};
  const auto found = std::find(options_.formats.begin(), options_.formats.end(), format);
  require<ShapeError>(found != options_.formats.end(), "a pipeline message of ", format.numel, " x ",
                      c10::toString(format.dtype),
                      " is not one of the agreed formats: ", formats_text(options_.formats));
  require<ShapeError>(tensor.is_contiguous(), "a pipeline message must be contiguous, got sizes ",
                      tensor.sizes(), " with strides ", tensor.strides());
  require<ShapeError>(tensor.device().type() == options_.backend.device.type(),
                      "a pipeline message must be on ", options_.backend.device.str(), ", got one on ",
                      tensor.device().str());
  const bool upwards = (route.direction == Direction::kSend) == (group_.index < route.peer);
  return static_cast<int>(tag) | static_cast<int>(found - options_.formats.begin()) << kFormatShift |
         static_cast<int>(route.kind) << kKindShift | (upwards ? kUpwardsBit : 0);
}

c10::intrusive_ptr<c10d::Work> LinkState::post(Direction direction, const at::Tensor& tensor, int peer,
                                               int wire_tag) {
  const auto channel = channels_.find({peer, direction});
  require<InternalError>(channel != channels_.end(), "there is no edge ",
                         direction == Direction::kSend ? "to" : "from", " stage ", peer, " at stage ",
                         group_.index);
  std::vector<at::Tensor> tensors = {tensor};
  const BrokenPipeGuard guard;  // a short message is written by the calling thread
  c10d::Backend& backend = *channel->second.backend;
  return direction == Direction::kSend ? backend.send(tensors, channel->second.peer_in_backend, wire_tag)
                                       : backend.recv(tensors, channel->second.peer_in_backend, wire_tag);
}

std::string LinkState::other_end(Direction direction, int peer) const {
  return cat(direction == Direction::kSend ? "to " : "from ", member_name(group_, peer));
}

void LinkState::fail(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = text;
  throw CommError(text);
}

uint64_t LinkState::begin(const MessageRoute& route, const at::Tensor& tensor, int64_t tag) {
  const int wire = wire_tag(route, tensor, tag);
  {
    const std::lock_guard lock(mutex_);
    require<CommError>(!failure_, member_name(group_, group_.index),
                       ": the pipeline link failed earlier: ", failure_.value_or(""));
  }
  Message message = {.tensor = tensor, .work = {}, .route = route, .start_error = ""};
  try {
    message.work = post(route.direction, tensor, route.peer, wire);
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    message.start_error = short_reason(error);  // for wait, which can say what the message was
  }
  const std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  // The watch did not know this message, whose wait must not last either.
  if (message.work && gone_.contains(route.peer)) message.work->abort();
  in_flight_.emplace(id, std::move(message));
  return id;
}

void LinkState::wait(uint64_t id, const std::function<std::string()>& describe) {
  Message message;
  {
    const std::lock_guard lock(mutex_);
    message = in_flight_.at(id);
  }
  const Clock::time_point begin = Clock::now();
  bool arrived = false;
  std::string reason = message.start_error;
  try {
    if (message.work && options_.backend.device.is_cpu()) {
      // A wait that a watch interrupted may belong to a message that was complete before its sender ended.
      arrived = message.work->wait(options_.backend.timeout) || message.work->wait(milliseconds(1));
    } else if (message.work) {
      message.work->wait();  // the stream waits, not the host
      arrived = true;
    }
  } catch (const std::exception& error) {
    reason = short_reason(error);
  }
  const auto waited = Clock::now() - begin;
  std::string gone;
  {
    const std::lock_guard lock(mutex_);
    in_flight_.erase(id);
    if (arrived) return;
    if (const auto found = gone_.find(message.route.peer); found != gone_.end()) gone = found->second;
  }
  const int peer_rank = group_.ranks[static_cast<size_t>(message.route.peer)];
  const double seconds = std::chrono::duration<double>(waited).count();
  std::string text = cat(member_name(group_, group_.index), " waited ", fixed(seconds, 1), " s for ",
                         describe(), " ", other_end(message.route.direction, message.route.peer), ": ");
  if (waited >= options_.backend.timeout) {
    text += cat("no answer within the timeout; rank ", peer_rank,
                " is stopped, stuck or far behind; see its log");
  } else {
    text += cat("rank ", peer_rank, " ended or gave up (", gone.empty() ? reason : gone, "); see its log");
  }
  fail(text);
}

}  // namespace braid::comm::detail
