#include "braid/comm/store_host.h"

#include "braid/comm/store_server.h"

namespace braid::comm {

HostedStore::HostedStore(FileDescriptor listener, HostOptions options)
    : server_(std::make_unique<StoreServer>(*this, std::move(listener), std::move(options))) {
  server_->start();
}

// The thread uses the table, so it ends first.
HostedStore::~HostedStore() { server_->stop(); }

void HostedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  HashStore::set(key, value);
  server_->wake();
}

std::vector<uint8_t> HostedStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  std::vector<uint8_t> found = HashStore::compareSet(key, expected, desired);
  server_->wake();
  return found;
}

int64_t HostedStore::add(const std::string& key, int64_t amount) {
  const int64_t sum = HashStore::add(key, amount);
  server_->wake();
  return sum;
}

void HostedStore::append(const std::string& key, const std::vector<uint8_t>& value) {
  HashStore::append(key, value);
  server_->wake();
}

void HostedStore::multiSet(const std::vector<std::string>& keys,
                           const std::vector<std::vector<uint8_t>>& values) {
  HashStore::multiSet(keys, values);
  server_->wake();
}

std::optional<std::vector<std::string>> HostedStore::values_now(const std::vector<std::string>& keys) {
  const std::lock_guard lock(m_);
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    const auto found = map_.find(key);
    if (found == map_.end()) return std::nullopt;
    values.emplace_back(found->second.begin(), found->second.end());
  }
  return values;
}

}  // namespace braid::comm
