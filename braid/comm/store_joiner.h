// The other ranks' end of the run's key-value store.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace braid::comm {

struct JoinOptions {
  std::string host;  // rank 0's name or address
  int port = 0;
  std::string secret;  // empty: rank 0 must be a process of this user on this machine
  int rank = 0;        // of this process, for messages
  std::string braid_version;
};

class StoreConnection;

/// Rank 0's store, through one connection. Thread-safe; one request at a time, so a wait delays the requests
/// of other threads (clone() gives them a connection of their own). Functions throw c10::DistStoreError when
/// a wait takes longer than its limit, or when rank 0 is lost.
class JoinedStore : public c10d::Store {
 public:
  /// Connects, proves to know the secret, and has rank 0 prove the same. Tries again until `timeout`, since
  /// rank 0 may start later. Later waits use `timeout` too. Throws CommError naming host and port: no answer
  /// in time, another program, another secret, another protocol.
  JoinedStore(JoinOptions options, std::chrono::milliseconds timeout);
  ~JoinedStore() override;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }
  std::vector<std::string> listKeys() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;

 private:
  const JoinOptions options_;
  std::unique_ptr<StoreConnection> connection_;
};

}  // namespace braid::comm
