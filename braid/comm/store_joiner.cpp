#include "braid/comm/store_joiner.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/comm/store_connection.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> bytes_from(const std::string& text) { return {text.begin(), text.end()}; }

MessageWriter request(StoreOp op) { return MessageWriter().number(static_cast<uint64_t>(op)); }

uint64_t count_of(milliseconds time) { return static_cast<uint64_t>(std::max<int64_t>(0, time.count())); }

std::string names(const std::vector<std::string>& keys) {
  return keys.empty() ? "no key"
                      : cat(keys.front(), keys.size() > 1 ? cat(" and ", keys.size() - 1, " more") : "");
}

// The reply to a request that rank 0 answers when `keys` are there.
std::string await(StoreConnection& connection, StoreOp op, const std::vector<std::string>& keys,
                  milliseconds timeout) {
  const std::optional<std::string> answer =
      connection.exchange(request(op).number(count_of(timeout)).texts(keys), timeout);
  if (!answer) {
    C10_THROW_ERROR(DistStoreError,
                    cat("store timeout after ", timeout.count(), " ms waiting for ", names(keys)));
  }
  return *answer;
}

}  // namespace

JoinedStore::JoinedStore(JoinOptions options, milliseconds timeout)
    : c10d::Store(timeout),
      options_(std::move(options)),
      connection_(std::make_unique<StoreConnection>(options_, timeout)) {}

JoinedStore::~JoinedStore() = default;

c10::intrusive_ptr<c10d::Store> JoinedStore::clone() {
  return c10::make_intrusive<JoinedStore>(options_, timeout_);
}

void JoinedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  connection_->answer(request(StoreOp::kSet).text(key).text(text_of(value)), timeout_);
}

std::vector<uint8_t> JoinedStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  const std::string answer = connection_->answer(
      request(StoreOp::kCompareSet).text(key).text(text_of(expected)).text(text_of(desired)), timeout_);
  return bytes_from(MessageReader(answer).text());
}

std::vector<uint8_t> JoinedStore::get(const std::string& key) { return multiGet({key}).front(); }

int64_t JoinedStore::add(const std::string& key, int64_t amount) {
  const std::string answer =
      connection_->answer(request(StoreOp::kAdd).text(key).number(static_cast<uint64_t>(amount)), timeout_);
  return static_cast<int64_t>(MessageReader(answer).number());
}

bool JoinedStore::deleteKey(const std::string& key) {
  return MessageReader(connection_->answer(request(StoreOp::kDelete).text(key), timeout_)).number() == 1;
}

bool JoinedStore::check(const std::vector<std::string>& keys) {
  return MessageReader(connection_->answer(request(StoreOp::kCheck).texts(keys), timeout_)).number() == 1;
}

int64_t JoinedStore::getNumKeys() {
  return static_cast<int64_t>(
      MessageReader(connection_->answer(request(StoreOp::kCount), timeout_)).number());
}

void JoinedStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  await(*connection_, StoreOp::kWait, keys, timeout);
}

void JoinedStore::append(const std::string& key, const std::vector<uint8_t>& value) {
  connection_->answer(request(StoreOp::kAppend).text(key).text(text_of(value)), timeout_);
}

std::vector<std::vector<uint8_t>> JoinedStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values;
  for (const std::string& value :
       MessageReader(await(*connection_, StoreOp::kFetch, keys, timeout_)).texts()) {
    values.push_back(bytes_from(value));
  }
  return values;
}

void JoinedStore::multiSet(const std::vector<std::string>& keys,
                           const std::vector<std::vector<uint8_t>>& values) {
  require<ShapeError>(keys.size() == values.size(), "multiSet got ", keys.size(), " keys and ", values.size(),
                      " values");
  for (size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
}

std::vector<std::string> JoinedStore::listKeys() {
  return MessageReader(connection_->answer(request(StoreOp::kList), timeout_)).texts();
}

}  // namespace braid::comm
