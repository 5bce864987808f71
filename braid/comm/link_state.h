// The state that a pipeline link shares with its pending messages. Only for pipeline_link.cpp.
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
/// A watch is a receive that is never answered, with a thread of its own waiting for it. When the neighbour's
/// process ends, Gloo fails every operation that has not begun to move bytes, but not those that have: their
/// waiters would wait for the full timeout. The watch never begins to move bytes, so it is always notified,
/// and then wakes the others.
class LinkState {
 public:
  LinkState(const c10::intrusive_ptr<c10d::Store>& store, const Group& group, PipelineLinkOptions options);
  ~LinkState();
  LinkState(const LinkState&) = delete;
  LinkState& operator=(const LinkState&) = delete;

  /// Starts a message; returns the id with which to wait for it.
  uint64_t begin(const MessageRoute& route, const at::Tensor& tensor, int64_t tag);

  /// Waits for message `id` and removes it.
  void wait(uint64_t id, const std::function<std::string()>& describe);

  /// Ends the watches. Messages in flight stay.
  void stop_watching();

 private:
  struct Message {
    at::Tensor tensor;
    c10::intrusive_ptr<c10d::Work> work;
    MessageRoute route;
    std::string start_error;  // why it could not be started; then there is no work
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
  std::string mismatch_;                                   // of formats, found while testing the edges

  std::mutex mutex_;                                 // guards the following members
  std::unordered_map<uint64_t, Message> in_flight_;  // dropped messages stay here until the link ends
  uint64_t next_id_ = 1;
  std::map<int, std::string> gone_;     // peers whose connection ended, and the reason
  std::optional<std::string> failure_;  // the first one; it makes the link unusable
  bool stopping_ = false;

  std::map<int, Watch> watches_;  // by peer
};

}  // namespace braid::comm::detail
