// Rank 0's end of the run's key-value store: a table in memory, and a thread that serves it to ranks that
// have proved to know the run's secret.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "braid/comm/address.h"

namespace braid::comm {

/// Connections that have not proved anything yet: at most this many are held. When another one arrives, the
/// oldest from the address that holds most of them is closed.
inline constexpr size_t kMostUnproved = 128;

struct HostOptions {
  std::string secret;         // empty: processes of this user on this machine are accepted, and nobody else
  std::string braid_version;  // told to ranks of another one
  std::function<void(const std::string&)>
      report;  // receives a line about rejected connections, from a thread
  std::chrono::milliseconds proof_timeout = std::chrono::seconds(5);
};

class StoreServer;

/// The table. Rank 0 uses it directly; its waits end when a remote rank sets the key. Serves until destroyed,
/// which closes all connections. Thread-safe.
class HostedStore : public c10d::HashStore {
 public:
  /// Serves on `listener`, a listening TCP socket.
  HostedStore(FileDescriptor listener, HostOptions options);
  ~HostedStore() override;

  // As HashStore's; remote ranks that wait for the key continue.
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;

  /// The values of `keys`, or nothing unless all of them are there. Does not wait.
  std::optional<std::vector<std::string>> values_now(const std::vector<std::string>& keys);

  using c10d::Store::compareSet;
  using c10d::Store::set;

 private:
  std::unique_ptr<StoreServer> server_;
};

}  // namespace braid::comm
