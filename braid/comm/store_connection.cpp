#include "braid/comm/store_connection.h"

#include <c10/util/Exception.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/peer_user.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How much longer than its own limit a reply may take.
constexpr milliseconds kReplySlack(10'000);
constexpr milliseconds kLongestConnect(5000);

// Failures after which another attempt may succeed: rank 0 is not there yet, or has closed to make room.
struct TryAgain : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Rank 0 has not sent what it should have in time.
struct TooLate : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string seconds_text(milliseconds time) {
  return cat(to_text(static_cast<double>(time.count()) / 1000.0), " s");
}

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

void await_socket(int fd, int events, Clock::time_point deadline) {
  pollfd polled = {.fd = fd, .events = static_cast<short>(events), .revents = 0};
  int ready = 0;
  do {
    const auto limit = std::min<int64_t>(left_until(deadline).count(), 3'600'000);
    ready = ::poll(&polled, 1, static_cast<int>(limit));
  } while (ready <= 0 && Clock::now() < deadline);
  if (ready <= 0) throw TooLate("no reply");
}

void send_all(int fd, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      await_socket(fd, POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw TryAgain(std::strerror(errno));
    }
  }
}

// Up to `most` more bytes at the end of `buffer`.
void receive_some(int fd, std::string& buffer, size_t most, Clock::time_point deadline) {
  while (true) {
    const size_t before = buffer.size();
    buffer.resize(before + most);
    const ssize_t count = ::recv(fd, buffer.data() + before, most, 0);
    const int code = errno;
    buffer.resize(before + static_cast<size_t>(std::max<ssize_t>(0, count)));
    if (count > 0) return;
    if (count == 0) throw TryAgain("the connection was closed");
    if (code == EAGAIN || code == EWOULDBLOCK) {
      await_socket(fd, POLLIN, deadline);
    } else if (code != EINTR) {
      throw TryAgain(std::strerror(code));
    }
  }
}

std::string receive_exactly(int fd, size_t count, Clock::time_point deadline) {
  std::string bytes;
  while (bytes.size() < count) receive_some(fd, bytes, count - bytes.size(), deadline);
  return bytes;
}

std::string receive_frame(int fd, FrameKey& key, std::string& buffer, Clock::time_point deadline) {
  while (true) {
    if (std::optional<std::string> body = open_frame(key, buffer)) return std::move(*body);
    receive_some(fd, buffer, size_t{64} << 10, deadline);
  }
}

// One connection attempt's dialogue, with the errors that end all attempts.
class Dialogue {
 public:
  Dialogue(const JoinOptions& options, std::string address, Clock::time_point deadline)
      : options_(options), address_(std::move(address)), deadline_(deadline) {}

  ProvedSocket run() {
    ProvedSocket joined = {.fd = connect()};
    const int fd = joined.fd.get();
    const std::string host_nonce = receive_greeting(fd);
    if (options_.secret.empty())
      require<CommError>(user_of_peer(fd) == ::geteuid(), who(), " found a process of another user at ",
                         where(), ": set BRAID_RUN_SECRET for all ranks if it is their rank 0");
    const std::string own_nonce = random_nonce();
    const Session session = derive_session(options_.secret, host_nonce, own_nonce);
    send_all(fd, cat(own_nonce, bytes_of(session.joiner_proof)), deadline_);
    const std::string verdict = receive_exactly(fd, 1, deadline_);
    require<CommError>(
        verdict.front() == kAccepted, who(), " was rejected at ", where(),
        ": BRAID_RUN_SECRET is not the same here as for rank 0; set the same one for all ranks");
    require<CommError>(matches(session.host_proof, receive_exactly(fd, kProofBytes, deadline_)), who(),
                       " reached a braid at ", where(),
                       " that does not know the run's secret: is it another "
                       "run's rank 0?");
    joined.to_host = session.to_host;
    joined.to_joiner = session.to_joiner;
    introduce(joined);
    return joined;
  }

 private:
  FileDescriptor connect() const {
    try {
      return connect_to(address_, options_.port, std::min(left_until(deadline_), kLongestConnect));
    } catch (const CommError& error) {
      throw TryAgain(error.what());
    }
  }

  std::string who() const { return cat("rank ", options_.rank); }
  std::string where() const { return cat(address_, " port ", options_.port); }

  std::string receive_greeting(int fd) const {
    std::string bytes;
    while (bytes.size() < kGreeting.size() + kNonceBytes) {
      receive_some(fd, bytes, kGreeting.size() + kNonceBytes - bytes.size(), deadline_);
      const size_t seen = std::min(bytes.size(), kGreeting.size());
      require<CommError>(bytes.compare(0, seen, kGreeting, 0, seen) == 0, who(), " reached ", where(),
                         ", but another program answers there: check MASTER_ADDR and MASTER_PORT");
    }
    return bytes.substr(kGreeting.size());
  }

  void introduce(ProvedSocket& joined) const {
    const MessageWriter message = MessageWriter()
                                      .number(static_cast<uint64_t>(StoreOp::kIntroduce))
                                      .number(kStoreProtocol)
                                      .number(static_cast<uint64_t>(options_.rank))
                                      .text(options_.braid_version);
    send_all(joined.fd.get(), seal(joined.to_host, message.bytes()), deadline_);
    const std::string body = receive_frame(joined.fd.get(), joined.to_joiner, joined.buffer, deadline_);
    MessageReader reply(body);
    const auto outcome = static_cast<StoreReply>(reply.number());
    if (outcome == StoreReply::kOtherProtocol) {
      const uint64_t protocol = reply.number();
      throw CommError(cat(who(), " runs braid ", options_.braid_version, " with startup protocol ",
                          kStoreProtocol, ", but rank 0 at ", where(), " runs braid ", reply.text(),
                          " with protocol ", protocol, ": use the same version on all nodes"));
    }
    require<CommError>(outcome == StoreReply::kDone, who(), " got an unknown reply from ", where());
  }

  const JoinOptions& options_;
  const std::string address_;
  const Clock::time_point deadline_;
};

ProvedSocket join(const JoinOptions& options, milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  milliseconds pause(20);
  std::string reason;
  do {
    std::vector<std::string> addresses;
    try {
      addresses = resolve_host(options.host);
    } catch (const CommError& error) {
      reason = error.what();  // a name service may start later than the ranks
    }
    for (const std::string& address : addresses) {
      try {
        return Dialogue(options, address, deadline).run();
      } catch (const TooLate&) {
        throw CommError(cat("rank ", options.rank, " reached ", address, " port ", options.port,
                            ", but no braid answered there within ", seconds_text(timeout),
                            ": another program uses this port, or rank 0 is stopped; check MASTER_ADDR and "
                            "MASTER_PORT"));
      } catch (const TryAgain& error) {
        reason = error.what();
      }
    }
    std::this_thread::sleep_for(std::min(pause, left_until(deadline)));
    pause = std::min(pause * 2, milliseconds(500));
  } while (Clock::now() < deadline);
  throw CommError(cat("rank ", options.rank, " found no rank 0 at ", options.host, " port ", options.port,
                      " within ", seconds_text(timeout), " (", reason,
                      "): is rank 0 running, and are MASTER_ADDR and MASTER_PORT correct?"));
}

}  // namespace

StoreConnection::StoreConnection(const JoinOptions& options, milliseconds timeout)
    : socket_(join(options, timeout)) {}

std::optional<std::string> StoreConnection::exchange(const MessageWriter& request, milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) {
    const Clock::time_point deadline = Clock::now() + timeout + kReplySlack;
    try {
      send_all(socket_.fd.get(), seal(socket_.to_host, request.bytes()), deadline);
      const std::string body = receive_frame(socket_.fd.get(), socket_.to_joiner, socket_.buffer, deadline);
      MessageReader reply(body);
      const auto outcome = static_cast<StoreReply>(reply.number());
      if (outcome == StoreReply::kTimeout) return std::nullopt;
      if (outcome == StoreReply::kDone) return reply.rest();
      broken_ = "an unknown reply";
    } catch (const std::exception& error) {
      broken_ = error.what();
    }
  }
  C10_THROW_ERROR(DistStoreError, cat("the store of rank 0 is lost: ", broken_));
}

std::string StoreConnection::answer(const MessageWriter& request, milliseconds timeout) {
  std::optional<std::string> fields = exchange(request, timeout);
  if (!fields) C10_THROW_ERROR(DistStoreError, "the store of rank 0 replied out of order");
  return std::move(*fields);
}

}  // namespace braid::comm
