// A proved and authenticated connection from a rank to rank 0's store.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "braid/comm/address.h"
#include "braid/comm/store_joiner.h"
#include "braid/comm/store_protocol.h"

namespace braid::comm {

/// A socket whose two ends have proved to each other that they know the secret.
struct ProvedSocket {
  FileDescriptor fd;
  FrameKey to_host{}, to_joiner{};
  std::string buffer{};  // received, and not yet read
};

/// Thread-safe; one request at a time.
class StoreConnection {
 public:
  /// See JoinedStore.
  StoreConnection(const JoinOptions& options, std::chrono::milliseconds timeout);

  /// Sends a request whose answer may take rank 0 `timeout`. Returns the fields of the reply, or nothing if
  /// rank 0's own limit of the wait ended first. Throws c10::DistStoreError if rank 0 is lost, does not
  /// reply, or replies with what nobody but rank 0 could have sent; every later call then throws the same.
  std::optional<std::string> exchange(const MessageWriter& request, std::chrono::milliseconds timeout);

  /// The same for a request that does not wait.
  std::string answer(const MessageWriter& request, std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  ProvedSocket socket_;
  std::string broken_;  // why, once it is
};

}  // namespace braid::comm
