// What a pipeline link and its pending messages share. For pipeline_link.cpp alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "braid/comm/pipeline_link.h"

namespace braid::comm::detail {

/// The backends, the messages in flight, and one watch per neighbour.
///
/// A watch is a receive that nobody will ever answer, waited for by a thread of its own. When the neighbour's
/// process ends, Gloo fails every operation that has not begun to move bytes, but forgets those that have:
/// their waiters would sit out the whole timeout. The watch never begins to move bytes, so it always hears,
/// and then wakes the others.
class LinkState {
 public:
  LinkState(const c10::intrusive_ptr<c10d::Store>& store, const Group& group, PipelineLinkOptions options);
  ~LinkState();
  LinkState(const LinkState&) = delete;
  LinkState& operator=(const LinkState&) = delete;

  /// Begins a message; returns the id under which to wait for it.
  uint64_t begin(const MessageRoute& route, const at::Tensor& tensor, int64_t tag);

  /// Waits for message `id` and forgets it.
  void wait(uint64_t id, const std::function<std::string()>& describe);

  /// Ends the watches. Messages in flight stay.
  void stop_watching();

 private:
  struct Message {
    at::Tensor tensor;
    c10::intrusive_ptr<c10d::Work> work;
    MessageRoute route;
    std::string start_error;  // why it could not begin; then there is no work
  };
  struct Channel {
    c10::intrusive_ptr<c10d::Backend> backend;
    int peer_in_backend = 0;
  };
  struct Watch {
    c10::intrusive_ptr<c10d::Work> work;
    std::thread thread;
  };

  void connect(const c10::intrusive_ptr<c10d::Store>& store);
  void try_edges();
  void try_edge(const Edge& edge);
  void watch_neighbours();
  void watch(int peer, c10d::Work& work);

  int wire_tag(const MessageRoute& route, const at::Tensor& tensor, int64_t tag) const;
  c10::intrusive_ptr<c10d::Work> post(Direction direction, const at::Tensor& tensor, int peer, int wire_tag);
  std::string other_end(Direction direction, int peer) const;
  [[noreturn]] void fail(const std::string& text);

  const Group group_;
  const PipelineLinkOptions options_;
  std::map<std::pair<int, Direction>, Channel> channels_;  // by peer and direction
  std::string mismatch_;                                   // of formats, found while trying the edges

  std::mutex mutex_;                                 // guards what follows
  std::unordered_map<uint64_t, Message> in_flight_;  // dropped messages stay here to the end
  uint64_t next_id_ = 1;
  std::map<int, std::string> gone_;     // peers whose connection ended, and how
  std::optional<std::string> failure_;  // the first one; the link is unusable after it
  bool stopping_ = false;

  std::map<int, Watch> watches_;  // by peer
};

}  // namespace braid::comm::detail
