#include "braid/comm/store_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "braid/base/error.h"
#include "braid/comm/peer_user.h"
#include "braid/comm/store_events.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;

constexpr size_t kReadBytes = size_t{64} << 10;
// Of a connection that has proved nothing, no more than this is ever read.
constexpr size_t kUnprovedBytes = kNonceBytes + kProofBytes;
constexpr int kMostAcceptedAtOnce = 64;
// When the process has no descriptor left for another connection, it is tried again after this time.
constexpr milliseconds kAcceptPause(100);
// The longest wait a rank may ask for; keeps sums of times in range.
constexpr uint64_t kLongestWaitMs = uint64_t{1000} * 60 * 60 * 24 * 365;

std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string to_string(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

MessageWriter done() { return MessageWriter().number(static_cast<uint64_t>(StoreReply::kDone)); }

// A thread that starts with all signals blocked: they are for the threads of the program.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

StoreServer::StoreServer(HostedStore& table, FileDescriptor listener, HostOptions options)
    : table_(table),
      listener_(std::move(listener)),
      woken_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      options_(std::move(options)),
      rejections_(options_.report) {
  require<CommError>(woken_.get() >= 0, "the store cannot start: no file descriptor is left");
  ::fcntl(listener_.get(), F_SETFL, ::fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
}

void StoreServer::start() {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

void StoreServer::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(woken_.get(), &one, sizeof one);
}

void StoreServer::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  wake();
  thread_.join();
}

void StoreServer::run() {
  while (!stopping_) {
    std::vector<pollfd> polled = {{woken_.get(), POLLIN, 0},
                                  {listener_.get(), static_cast<short>(accept_again_ ? 0 : POLLIN), 0}};
    for (const Connection& connection : connections_) {
      // One request at a time: whoever waits for an answer has nothing else to say.
      const int events = (connection.waiting ? POLLRDHUP : POLLIN) | (connection.out.empty() ? 0 : POLLOUT);
      polled.push_back({connection.fd.get(), static_cast<short>(events), 0});
    }
    ::poll(polled.data(), polled.size(), poll_milliseconds());
    if (polled[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t taken = ::read(woken_.get(), &count, sizeof count);
    }
    size_t at = 2;
    for (Connection& connection : connections_) {
      const short events = polled[at++].revents;
      if ((events & POLLOUT) != 0) flush(connection);
      if ((events & POLLIN) != 0) receive(connection);
      if ((events & POLLRDHUP) != 0) connection.ended = true;
      if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0 && (events & POLLIN) == 0) connection.ended = true;
    }
    answer_waiting();
    end_unproved();
    connections_.remove_if([](const Connection& connection) { return connection.ended; });
    if (accept_again_ && *accept_again_ <= Clock::now()) accept_again_.reset();
    if ((polled[1].revents & POLLIN) != 0) accept_waiting();
  }
  connections_.clear();
}

int StoreServer::poll_milliseconds() const {
  std::optional<Clock::time_point> next = accept_again_;
  const auto consider = [&](Clock::time_point time) { next = std::min(next.value_or(time), time); };
  for (const Connection& connection : connections_) {
    if (connection.phase != Phase::kIntroduced) consider(connection.proof_deadline);
    if (connection.waiting) consider(connection.waiting->deadline);
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void StoreServer::accept_waiting() {
  // Bounded: however fast somebody connects, those that are connected are served in between.
  for (int i = 0; i < kMostAcceptedAtOnce; ++i) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.get() < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) accept_again_ = Clock::now() + kAcceptPause;
      return;
    }
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::string address;
    try {
      address = peer_address(fd.get());
    } catch (const CommError&) {
      continue;  // it has closed already
    }
    make_room();
    connections_.push_back({.fd = std::move(fd),
                            .address = std::move(address),
                            .proof_deadline = Clock::now() + options_.proof_timeout,
                            .host_nonce = random_nonce()});
    Connection& connection = connections_.back();
    if (options_.secret.empty() && user_of_peer(connection.fd.get()) != ::geteuid()) {
      reject(connection,
             "the ranks share no secret, and it is not a process of this user on this machine; set "
             "BRAID_RUN_SECRET for all ranks if it is one of them");
    } else {
      connection.out = cat(kGreeting, connection.host_nonce);
      flush(connection);
    }
    if (connection.ended) connections_.pop_back();
  }
}

void StoreServer::make_room() {
  std::map<std::string, size_t> unproved;
  size_t count = 0;
  for (const Connection& connection : connections_) {
    if (connection.phase != Phase::kUnproved) continue;
    ++unproved[connection.address];
    ++count;
  }
  if (count < kMostUnproved) return;
  const auto most = std::max_element(unproved.begin(), unproved.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest =
      std::find_if(connections_.begin(), connections_.end(), [&](const Connection& connection) {
        return connection.phase == Phase::kUnproved && connection.address == most->first;
      });
  rejections_.add(oldest->address, cat("it had proved nothing when there were ", count, " like it"));
  connections_.erase(oldest);
}

void StoreServer::receive(Connection& connection) {
  std::string bytes(connection.phase == Phase::kUnproved ? kUnprovedBytes - connection.in.size() : kReadBytes,
                    '\0');
  const ssize_t count = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    if (connection.phase == Phase::kUnproved && !connection.ends_when_flushed)
      rejections_.add(connection.address, "it closed without a proof that it knows the run's secret");
    connection.ended = true;
    return;
  }
  connection.in.append(bytes, 0, static_cast<size_t>(count));
  try {
    interpret(connection);
  } catch (const std::exception& error) {
    reject(connection, error.what());
  }
}

void StoreServer::interpret(Connection& connection) {
  if (connection.phase == Phase::kUnproved) {
    if (connection.ends_when_flushed || connection.in.size() < kUnprovedBytes) return;
    if (!check_proof(connection)) return;
  }
  while (!connection.waiting && !connection.ends_when_flushed) {
    const std::optional<std::string> body = open_frame(connection.to_host, connection.in);
    if (!body) return;
    serve(connection, *body);
  }
}

bool StoreServer::check_proof(Connection& connection) {
  const std::string_view in = connection.in;
  const Session session = derive_session(options_.secret, connection.host_nonce, in.substr(0, kNonceBytes));
  if (!matches(session.joiner_proof, in.substr(kNonceBytes))) {
    reject(connection, "it does not know the run's secret (BRAID_RUN_SECRET)");
    table_.set(kRejectedKey, to_bytes(rejections_.addresses()));
    connection.out += kRejected;
    connection.ended = false;
    connection.ends_when_flushed = true;
    flush(connection);
    return false;
  }
  connection.in.clear();
  connection.phase = Phase::kProved;
  connection.to_host = session.to_host;
  connection.to_joiner = session.to_joiner;
  connection.out += cat(kAccepted, bytes_of(session.host_proof));
  flush(connection);
  return true;
}

void StoreServer::introduce(Connection& connection, MessageReader& message) {
  const uint64_t protocol = message.number();
  const uint64_t rank = message.number();
  const std::string version = message.text();
  if (protocol == kStoreProtocol) {
    connection.phase = Phase::kIntroduced;
    reply(connection, done());
    return;
  }
  post_fault(table_,
             cat("rank ", rank, " at ", connection.address, " runs braid ", version,
                 " with startup protocol ", protocol, ", but rank 0 runs braid ", options_.braid_version,
                 " with protocol ", kStoreProtocol, ": use the same version on all nodes"));
  connection.ends_when_flushed = true;
  reply(connection, MessageWriter()
                        .number(static_cast<uint64_t>(StoreReply::kOtherProtocol))
                        .number(kStoreProtocol)
                        .text(options_.braid_version));
}

void StoreServer::serve(Connection& connection, const std::string& body) {
  MessageReader message(body);
  const auto op = static_cast<StoreOp>(message.number());
  const bool introduces = op == StoreOp::kIntroduce;
  require<CommError>(introduces == (connection.phase == Phase::kProved), "it sent a request out of order");
  switch (op) {
    case StoreOp::kIntroduce:
      return introduce(connection, message);
    case StoreOp::kSet: {
      const std::string key = message.text();
      table_.set(key, to_bytes(message.text()));
      return reply(connection, done());
    }
    case StoreOp::kCompareSet: {
      const std::string key = message.text(), expected = message.text(), desired = message.text();
      return reply(connection,
                   done().text(to_string(table_.compareSet(key, to_bytes(expected), to_bytes(desired)))));
    }
    case StoreOp::kAdd: {
      const std::string key = message.text();
      const auto amount = static_cast<int64_t>(message.number());
      return reply(connection, done().number(static_cast<uint64_t>(table_.add(key, amount))));
    }
    case StoreOp::kAppend: {
      const std::string key = message.text();
      table_.append(key, to_bytes(message.text()));
      return reply(connection, done());
    }
    case StoreOp::kDelete:
      return reply(connection, done().number(table_.deleteKey(message.text()) ? 1 : 0));
    case StoreOp::kCheck:
      return reply(connection, done().number(table_.check(message.texts()) ? 1 : 0));
    case StoreOp::kCount:
      return reply(connection, done().number(static_cast<uint64_t>(table_.getNumKeys())));
    case StoreOp::kList:
      return reply(connection, done().texts(table_.listKeys()));
    case StoreOp::kWait:
    case StoreOp::kFetch: {
      const milliseconds limit(std::min(message.number(), kLongestWaitMs));
      connection.waiting = {.keys = message.texts(), .deadline = Clock::now() + limit, .op = op};
      return;
    }
  }
  throw CommError("it sent an unknown request");
}

void StoreServer::answer_waiting() {
  for (Connection& connection : connections_) {
    while (connection.waiting && !connection.ended) {
      const Waiting& waiting = *connection.waiting;
      const std::optional<std::vector<std::string>> values = table_.values_now(waiting.keys);
      if (!values && Clock::now() < waiting.deadline) break;
      MessageWriter answer =
          values ? done() : MessageWriter().number(static_cast<uint64_t>(StoreReply::kTimeout));
      if (values && waiting.op == StoreOp::kFetch) answer.texts(*values);
      connection.waiting.reset();
      try {
        reply(connection, answer);
        interpret(connection);
      } catch (const std::exception& error) {
        reject(connection, error.what());
      }
    }
  }
}

void StoreServer::end_unproved() {
  const auto now = Clock::now();
  for (Connection& connection : connections_) {
    if (connection.ended || connection.phase == Phase::kIntroduced || now < connection.proof_deadline)
      continue;
    if (connection.phase == Phase::kUnproved && !connection.ends_when_flushed)
      rejections_.add(connection.address, cat("it sent no proof within ", options_.proof_timeout.count(),
                                              " ms that it knows the run's secret"));
    connection.ended = true;
  }
}

void StoreServer::reply(Connection& connection, const MessageWriter& message) {
  connection.out += seal(connection.to_joiner, message.bytes());
  flush(connection);
}

void StoreServer::flush(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t sent =
        ::send(connection.fd.get(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent <= 0) {
      connection.ended = true;
      return;
    }
    connection.out.erase(0, static_cast<size_t>(sent));
  }
  // The other end closes after it has read the last message; the time limit ends it otherwise.
  if (connection.ends_when_flushed) ::shutdown(connection.fd.get(), SHUT_WR);
}

void StoreServer::reject(Connection& connection, const std::string& reason) {
  rejections_.add(connection.address, reason);
  connection.ended = true;
}

}  // namespace braid::comm
