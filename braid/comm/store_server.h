// The thread that serves rank 0's table to the other ranks. Nothing of a connection is interpreted before it
// has proved to know the run's secret, except two fields of fixed length.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "braid/comm/address.h"
#include "braid/comm/rejections.h"
#include "braid/comm/store_host.h"
#include "braid/comm/store_protocol.h"

namespace braid::comm {

/// One thread for all connections. It never waits for any of them: what is not there yet, or cannot be sent
/// yet, is left until poll reports it.
class StoreServer {
 public:
  /// Will serve `table`, which must outlive stop(), on `listener`.
  StoreServer(HostedStore& table, FileDescriptor listener, HostOptions options);
  ~StoreServer() { stop(); }
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Starts the thread. Once.
  void start();

  /// The table has changed: waiting ranks may continue. From any thread.
  void wake();

  /// Closes all connections and ends the thread. May be called twice.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  enum class Phase { kUnproved, kProved, kIntroduced };

  // A request that is answered once its keys are there.
  struct Waiting {
    std::vector<std::string> keys;
    Clock::time_point deadline;
    StoreOp op = StoreOp::kWait;
  };

  struct Connection {
    FileDescriptor fd;
    std::string address;
    Clock::time_point proof_deadline;
    std::string host_nonce;
    Phase phase = Phase::kUnproved;
    FrameKey to_host{}, to_joiner{};
    std::string in{}, out{};
    std::optional<Waiting> waiting{};
    bool ends_when_flushed = false;
    bool ended = false;
  };

  void run();
  void accept_waiting();
  void make_room();
  void receive(Connection& connection);
  void interpret(Connection& connection);
  bool check_proof(Connection& connection);
  void introduce(Connection& connection, MessageReader& message);
  void serve(Connection& connection, const std::string& body);
  void answer_waiting();
  void end_unproved();
  void reply(Connection& connection, const MessageWriter& message);
  void flush(Connection& connection);
  void reject(Connection& connection, const std::string& reason);
  int poll_milliseconds() const;

  HostedStore& table_;
  FileDescriptor listener_;
  FileDescriptor woken_;  // an eventfd
  HostOptions options_;
  Rejections rejections_;
  std::list<Connection> connections_;  // the oldest first
  std::optional<Clock::time_point> accept_again_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace braid::comm
