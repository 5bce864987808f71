// Who gets into the run's store: real sockets, with the peers that a network may have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "braid/base/error.h"
#include "braid/comm/address.h"
#include "braid/comm/peer_user.h"
#include "braid/comm/store_events.h"
#include "braid/comm/store_host.h"
#include "braid/comm/store_joiner.h"
#include "braid/comm/store_protocol.h"
#include "braid/comm/testing.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPlenty(20'000);
constexpr const char* kSecret = "a secret of this test";

// A store with its log.
class Host {
 public:
  explicit Host(const std::string& secret, milliseconds proof_timeout = kPlenty) {
    FileDescriptor listener = listen_on("127.0.0.1", 0);
    port = bound_port(listener.get());
    store = c10::make_intrusive<HostedStore>(std::move(listener),
                                             HostOptions{.secret = secret,
                                                         .braid_version = "1.0",
                                                         .report =
                                                             [this](const std::string& line) {
                                                               const std::lock_guard lock(mutex_);
                                                               log_ += line + "\n";
                                                             },
                                                         .proof_timeout = proof_timeout});
  }
  ~Host() { store.reset(); }  // before the log that its thread writes to
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  JoinOptions address(const std::string& secret, int rank = 1) const {
    return {.host = "127.0.0.1", .port = port, .secret = secret, .rank = rank, .braid_version = "1.0"};
  }

  int port = 0;

 private:
  std::mutex mutex_;
  std::string log_;

 public:
  c10::intrusive_ptr<HostedStore> store;
};

std::string join_error(const JoinOptions& options, milliseconds timeout = kPlenty) {
  try {
    JoinedStore store(options, timeout);
  } catch (const CommError& error) {
    return error.what();
  }
  return "accepted";
}

// A socket that says what it likes.
class Raw {
 public:
  explicit Raw(int port) : fd_(connect_to("127.0.0.1", port, kPlenty)) {}

  void send(std::string_view bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // What arrives, up to `count` bytes or the end of the connection.
  std::string receive(size_t count) {
    std::string bytes;
    while (bytes.size() < count) {
      pollfd polled = {fd_.get(), POLLIN, 0};
      if (::poll(&polled, 1, static_cast<int>(kPlenty.count())) <= 0) return bytes + " and then nothing";
      char piece[4096];
      const ssize_t got = ::recv(fd_.get(), piece, std::min(sizeof piece, count - bytes.size()), 0);
      if (got <= 0) break;
      bytes.append(piece, static_cast<size_t>(got));
    }
    return bytes;
  }
  bool is_closed() { return receive(1).empty(); }
  void end() { ::shutdown(fd_.get(), SHUT_WR); }
  int fd() const { return fd_.get(); }

  // As a rank would.
  Session prove(const std::string& secret) {
    const std::string greeting = receive(kGreeting.size() + kNonceBytes);
    EXPECT_TRUE(greeting.starts_with(kGreeting));
    const std::string nonce = random_nonce();
    Session session = derive_session(secret, greeting.substr(kGreeting.size()), nonce);
    send(cat(nonce, bytes_of(session.joiner_proof)));
    return session;
  }

 private:
  FileDescriptor fd_;
};

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

// Both ends of one store, in every combination, behave as c10d's store in memory.
TEST(StoreGate, EveryFunctionGivesWhatAStoreInMemoryGives) {
  Host host(kSecret);
  const auto joined = c10::make_intrusive<JoinedStore>(host.address(kSecret), kPlenty);
  const auto cloned = joined->clone();
  const auto plain = c10::make_intrusive<c10d::HashStore>();
  const auto run = [](c10d::Store& store) {
    std::vector<std::string> results;
    const auto text = [](const std::vector<uint8_t>& value) {
      return std::string(value.begin(), value.end());
    };
    store.set("a", "1");
    results.push_back(store.get_to_str("a"));
    results.push_back(store.compareSet("a", "2", "3"));
    results.push_back(store.compareSet("a", "1", "3"));
    results.push_back(store.compareSet("new", "", std::string("\0\xff", 2)));
    results.push_back(cat(store.add("n", 5)));
    results.push_back(cat(store.add("n", -7)));
    results.push_back(store.get_to_str("n"));
    store.append("a", bytes("4"));
    store.multiSet({"x", "y"}, {bytes("X"), bytes("")});
    for (const auto& value : store.multiGet({"x", "y", "a", "new"})) results.push_back(text(value));
    results.push_back(cat(store.check({"a", "x"}), store.check({"a", "z"}), store.check({})));
    results.push_back(cat(store.getNumKeys()));
    results.push_back(cat(store.deleteKey("x")));
    results.push_back(cat(store.deleteKey("x")));
    results.push_back(cat(store.listKeys().size(), store.hasExtendedApi()));
    store.wait({"a", "n"}, milliseconds(1));
    EXPECT_THROW(store.wait({"a", "z"}, milliseconds(30)), c10::DistStoreError);
    for (const char* key : {"a", "new", "n", "y"}) store.deleteKey(key);
    return results;
  };
  const auto expected = run(*plain);
  EXPECT_EQ(run(*joined), expected);
  EXPECT_EQ(run(*cloned), expected);
  EXPECT_EQ(run(*host.store), expected);
  joined->set("big", std::vector<uint8_t>(size_t{8} << 20, 7));
  EXPECT_EQ(host.store->get("big"), cloned->get("big"));
  EXPECT_THROW(joined->set("too big", std::vector<uint8_t>(kMostFrameBytes)), c10::DistStoreError);
  EXPECT_EQ(host.log(), "");
}

TEST(StoreGate, WaitsEndWhenAnyOtherEndSetsTheKey) {
  Host host(kSecret);
  JoinedStore first(host.address(kSecret), kPlenty), second(host.address(kSecret, 2), kPlenty);
  const std::vector<c10d::Store*> ends = {host.store.get(), &first, &second};
  int number = 0;
  for (c10d::Store* waits : ends) {
    for (c10d::Store* sets : ends) {
      if (sets == waits) continue;
      const std::string key = cat("key", ++number);
      std::thread thread([&] { EXPECT_EQ(waits->get_to_str(key), "value"); });
      sets->set(key, "value");
      thread.join();
    }
  }
}

TEST(StoreGate, AnotherSecretIsRejectedOnBothSides) {
  Host host(kSecret);
  EXPECT_THAT(join_error(host.address("another secret text")),
              HasSubstr(cat("rank 1 was rejected at 127.0.0.1 port ", host.port,
                            ": BRAID_RUN_SECRET is not the same here as for rank 0")));
  EXPECT_THAT(join_error(host.address("")), HasSubstr("BRAID_RUN_SECRET is not the same"));
  EXPECT_THAT(host.log(),
              HasSubstr("rejected a connection from 127.0.0.1: it does not know the run's secret"));
  EXPECT_THAT(host.log(), testing::Not(HasSubstr(kSecret)));
  EXPECT_EQ(host.store->get_to_str(kRejectedKey), "127.0.0.1");
  EXPECT_EQ(join_error(host.address(kSecret)), "accepted");
}

TEST(StoreGate, AHostWithoutTheSecretIsRejected) {
  // It says that it accepts, but cannot prove that it knows the secret.
  const FileDescriptor listener = listen_on("127.0.0.1", 0);
  std::thread impostor([&] {
    const FileDescriptor fd(::accept(listener.get(), nullptr, nullptr));
    const std::string greeting = cat(kGreeting, random_nonce());
    ::send(fd.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
    std::string proof(kNonceBytes + kProofBytes, '\0');
    ::recv(fd.get(), proof.data(), proof.size(), MSG_WAITALL);
    const std::string answer = cat(kAccepted, random_nonce());
    ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    ::recv(fd.get(), proof.data(), proof.size(), 0);
  });
  EXPECT_THAT(join_error({.host = "127.0.0.1",
                          .port = bound_port(listener.get()),
                          .secret = kSecret,
                          .rank = 1,
                          .braid_version = ""}),
              HasSubstr("does not know the run's secret"));
  impostor.join();
}

TEST(StoreGate, AnotherProgramOnThePortIsToldAtOnce) {
  const FileDescriptor listener = listen_on("127.0.0.1", 0);
  std::thread other([&] {
    const FileDescriptor fd(::accept(listener.get(), nullptr, nullptr));
    ::send(fd.get(), "220 mail\r\n", 10, MSG_NOSIGNAL);
    char byte = 0;
    ::recv(fd.get(), &byte, 1, 0);
  });
  EXPECT_THAT(join_error({.host = "127.0.0.1",
                          .port = bound_port(listener.get()),
                          .secret = kSecret,
                          .rank = 1,
                          .braid_version = ""}),
              HasSubstr("another program answers there"));
  other.join();
}

TEST(StoreGate, AProofIsGoodForOneConnectionOnly) {
  Host host(kSecret);
  std::string recorded;
  {
    Raw rank(host.port);
    const std::string host_nonce = rank.receive(kGreeting.size() + kNonceBytes).substr(kGreeting.size());
    const std::string nonce = random_nonce();
    recorded = cat(nonce, bytes_of(derive_session(kSecret, host_nonce, nonce).joiner_proof));
    rank.send(recorded);
    EXPECT_EQ(rank.receive(1), std::string(1, kAccepted));
  }
  Raw replay(host.port);
  replay.receive(kGreeting.size() + kNonceBytes);
  replay.send(recorded);
  EXPECT_EQ(replay.receive(100), std::string(1, kRejected));
}

TEST(StoreGate, AlteredRepeatedOrUnsealedFramesEndTheConnection) {
  const std::string introduction = MessageWriter()
                                       .number(static_cast<uint64_t>(StoreOp::kIntroduce))
                                       .number(kStoreProtocol)
                                       .number(1)
                                       .text("1.0")
                                       .bytes();
  const std::string request =
      MessageWriter().number(static_cast<uint64_t>(StoreOp::kSet)).text("key").text("value").bytes();
  const auto attempt = [&](const std::function<std::string(FrameKey&)>& frames) {
    Host host(kSecret);
    Raw rank(host.port);
    Session session = rank.prove(kSecret);
    EXPECT_EQ(rank.receive(1 + kProofBytes).front(), kAccepted);
    rank.send(seal(session.to_host, introduction));
    std::string reply = rank.receive(8 + 8 + kProofBytes);
    EXPECT_TRUE(open_frame(session.to_joiner, reply).has_value());
    rank.send(frames(session.to_host));
    rank.end();  // of a longer frame, nothing more will come
    EXPECT_TRUE(rank.is_closed());
    return host.store->check({"key"});
  };
  const std::string sealed_once = [&] {
    FrameKey key;
    return seal(key, request);
  }();
  for (size_t i = 0; i < sealed_once.size(); ++i) {
    EXPECT_FALSE(attempt([&](FrameKey& key) {
      std::string frame = seal(key, request);
      frame[i] = static_cast<char>(frame[i] ^ 1);
      return frame;
    })) << i;
  }
  EXPECT_FALSE(attempt([&](FrameKey&) -> const std::string& { return sealed_once; })) << "another key";
  EXPECT_FALSE(attempt([&](FrameKey& key) {
    seal(key, request);  // lost on the way
    return seal(key, request);
  }));
  EXPECT_FALSE(attempt([&](FrameKey& key) {
    key.next = 0;  // the introduction's number
    return seal(key, request);
  }));
}

TEST(StoreGate, RequestsThatAreNoRequestsEndOnlyTheirConnection) {
  Host host(kSecret);
  const std::vector<std::string> bodies = {
      "",
      "short",
      MessageWriter().number(99).bytes(),
      MessageWriter().number(static_cast<uint64_t>(StoreOp::kSet)).bytes(),
      MessageWriter().number(static_cast<uint64_t>(StoreOp::kSet)).number(1000).bytes(),
      MessageWriter().number(static_cast<uint64_t>(StoreOp::kCheck)).number(UINT64_MAX).bytes(),
      MessageWriter()
          .number(static_cast<uint64_t>(StoreOp::kWait))
          .number(UINT64_MAX)
          .number(UINT64_MAX)
          .bytes()};
  for (const bool introduced : {false, true}) {
    for (const std::string& body : bodies) {
      Raw rank(host.port);
      Session session = rank.prove(kSecret);
      rank.receive(1 + kProofBytes);
      if (introduced) {
        rank.send(seal(session.to_host,
                       MessageWriter().number(0).number(kStoreProtocol).number(1).text("1.0").bytes()));
        rank.receive(8 + 8 + kProofBytes);
      }
      rank.send(seal(session.to_host, body));
      EXPECT_TRUE(rank.is_closed());
    }
  }
  EXPECT_EQ(join_error(host.address(kSecret)), "accepted");
}

TEST(StoreGate, AnotherProtocolIsToldToBothSides) {
  Host host(kSecret);
  Raw rank(host.port);
  Session session = rank.prove(kSecret);
  rank.receive(1 + kProofBytes);
  rank.send(seal(session.to_host, MessageWriter().number(0).number(7).number(3).text("2.0").bytes()));
  std::string frame = rank.receive(1000);
  const auto body = open_frame(session.to_joiner, frame);
  ASSERT_TRUE(body.has_value());
  MessageReader reply(*body);
  EXPECT_EQ(reply.number(), static_cast<uint64_t>(StoreReply::kOtherProtocol));
  EXPECT_EQ(reply.number(), kStoreProtocol);
  EXPECT_EQ(reply.text(), "1.0");
  const auto event = wait_for_event(*host.store, 1, kPlenty);
  ASSERT_TRUE(event.has_value());
  EXPECT_THAT(
      std::get<Fault>(*event).text,
      HasSubstr("rank 3 at 127.0.0.1 runs braid 2.0 with startup protocol 7, but rank 0 runs braid 1.0 "
                "with protocol 1"));
}

// Silent connections, broken ones, and far more of them than are kept: ranks get in all the same.
TEST(StoreGate, ConnectionsWithoutProofDelayNobody) {
  Host host(kSecret);
  std::vector<std::unique_ptr<Raw>> silent;
  for (size_t i = 0; i < 3 * kMostUnproved; ++i) silent.push_back(std::make_unique<Raw>(host.port));
  for (int i = 0; i < 20; ++i) {
    Raw noise(host.port);
    noise.send(std::string(50, 'x'));
  }
  const auto begin = Clock::now();
  std::vector<std::unique_ptr<JoinedStore>> ranks;
  for (int rank = 1; rank <= 8; ++rank)
    ranks.push_back(std::make_unique<JoinedStore>(host.address(kSecret, rank), kPlenty));
  EXPECT_LT(Clock::now() - begin, kPlenty / 2);
  size_t kept = 0;
  for (const auto& raw : silent) {
    // The ones that were closed to make room have an end after the greeting.
    const std::string greeting = raw->receive(kGreeting.size() + kNonceBytes);
    EXPECT_EQ(greeting.size(), kGreeting.size() + kNonceBytes);
    pollfd polled = {raw->fd(), POLLIN, 0};
    if (::poll(&polled, 1, 0) == 0) ++kept;
  }
  EXPECT_LE(kept, kMostUnproved);
  EXPECT_GT(kept, 0u);
  EXPECT_THAT(host.log(), HasSubstr("it had proved nothing when there were 128 like it"));
  for (const auto& rank : ranks) rank->set("still", "here");
}

TEST(StoreGate, ASilentConnectionIsClosedInTime) {
  Host host(kSecret, milliseconds(100));
  Raw silent(host.port);
  EXPECT_EQ(silent.receive(1000).size(), kGreeting.size() + kNonceBytes) << "and then the end";
  EXPECT_THAT(host.log(), HasSubstr("it sent no proof within 100 ms that it knows the run's secret"));
}

TEST(StoreGate, TheLossOfRankZeroEndsWaits) {
  auto host = std::make_unique<Host>(kSecret);
  JoinedStore joined(host->address(kSecret), kPlenty);
  const auto begin = Clock::now();
  std::thread thread([&] { EXPECT_THROW(joined.wait({"never"}, kPlenty), c10::DistStoreError); });
  joined.clone()->set("before", "");  // the wait of the thread has probably begun
  host.reset();
  thread.join();
  EXPECT_LT(Clock::now() - begin, kPlenty / 2);
  EXPECT_THROW(joined.set("later", ""), c10::DistStoreError);
}

TEST(PeerUser, IsTheOwnerOfAnOpenSocketOfThisMachine) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    const FileDescriptor listener = listen_on(address, 0);
    auto client = std::make_unique<FileDescriptor>(connect_to(address, bound_port(listener.get()), kPlenty));
    const FileDescriptor server(::accept(listener.get(), nullptr, nullptr));
    EXPECT_EQ(user_of_peer(server.get()), ::geteuid()) << address;
    EXPECT_EQ(user_of_peer(client->get()), ::geteuid()) << address;
    client.reset();
    pollfd polled = {server.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&polled, 1, static_cast<int>(kPlenty.count())), 1);
    EXPECT_EQ(user_of_peer(server.get()), std::nullopt) << "closed sockets are listed as root's";
  }
  EXPECT_EQ(user_of_peer(STDERR_FILENO), std::nullopt);
}

// Without a secret, on one machine: this user's processes only, whatever they can compute.
TEST(StoreGate, WithoutASecretOtherUsersAreRejected) {
  Host host("");
  EXPECT_EQ(join_error(host.address("")), "accepted");
  if (::geteuid() != 0) return;  // only root can become another user
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12345) != 0) ::_exit(3);
    ::_exit(Raw(host.port).is_closed() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "closed without a greeting";
  EXPECT_THAT(host.log(), HasSubstr("it is not a process of this user on this machine"));
}

}  // namespace
}  // namespace braid::comm
