// Two ranks as two processes, one of which is stopped or killed: what the other reports, and how soon.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "braid/base/error.h"
#include "braid/comm/address.h"
#include "braid/comm/communicator.h"
#include "braid/comm/pipeline_link.h"
#include "braid/comm/store.h"
#include "braid/comm/testing.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using testing::ContainsRegex;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr const char* kModeVariable = "BRAID_TEST_PEER_MODE";
constexpr const char* kPortVariable = "BRAID_TEST_PEER_PORT";
constexpr MessageFormat kSmall = {at::kFloat, 16};
constexpr MessageFormat kHuge = {at::kFloat, 16 << 20};  // far more than the socket buffers hold
constexpr milliseconds kLong = milliseconds(60'000);
const Group kBoth = {.axis = "pp", .ranks = {0, 1}, .index = 0};

World world_of(int rank, int port) {
  return {.rank = rank,
          .world_size = 2,
          .local_rank = rank,
          .local_world_size = 2,
          .master_port = port,
          .source = "a test"};
}

struct Ends {
  c10::intrusive_ptr<c10d::Store> store;
  std::unique_ptr<Communicator> all;
  std::unique_ptr<PipelineLink> link;
};

Ends connect(const World& world, milliseconds timeout) {
  Ends ends;
  ends.store = connect_store(world, kLong);
  handshake(*ends.store, world, {}, kLong);
  Group group = kBoth;
  group.index = world.rank;
  const BackendOptions backend = backend_options(world, c10::Device(c10::kCPU), timeout, "");
  ends.all = std::make_unique<Communicator>(ends.store, group, backend);
  ends.link = std::make_unique<PipelineLink>(
      ends.store, group, PipelineLinkOptions{.backend = backend, .formats = {kSmall, kHuge}, .edges = {}});
  return ends;
}

// Rank 1: this program again, as `main` below.
class Peer {
 public:
  Peer(const char* mode, int port) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv(kModeVariable, mode, 1);
      ::setenv(kPortVariable, std::to_string(port).c_str(), 1);
      ::execl("/proc/self/exe", "peer", nullptr);
      ::_exit(127);
    }
  }
  ~Peer() {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }

  void await_stop() const {
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status)) << "the peer ended instead of stopping";
  }

 private:
  pid_t pid_;
};

// From now on this process sends so slowly that a huge message takes minutes, however late it is stopped. The
// buffers are small, because the kernel goes on sending what a killed process has left in them.
void send_slowly() {
  constexpr uint32_t kBytesPerSecond = 256 << 10;
  constexpr int kBufferBytes = 32 << 10;
  for (const int fd : tcp_sockets()) {
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &kBytesPerSecond, sizeof(kBytesPerSecond)), 0);
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof(kBufferBytes)), 0);
  }
}

// Returns when this process has sent the first part of a huge message; `before` is what bytes_sent_over_tcp
// was when it had not begun.
void await_sending(int64_t before) {
  constexpr int64_t kMoreThanHeaders = 16 << 10;  // and less than a peer receives that does not read
  const Clock::time_point end = Clock::now() + kLong;
  while (bytes_sent_over_tcp() < before + kMoreThanHeaders) {
    ASSERT_LT(Clock::now(), end) << "the message does not go out";
    std::this_thread::yield();
  }
}

// What the process that Peer starts does, by mode.
void be_peer(const std::string& mode) {
  const Ends ends = connect(world_of(1, std::atoi(std::getenv(kPortVariable))), kLong);
  at::Tensor huge = at::zeros({kHuge.numel});
  Pending pending;
  if (mode == "receive") pending = ends.link->receive(huge, 0, MessageKind::kActivation, 0);
  if (mode == "send") {
    send_slowly();
    const int64_t before = bytes_sent_over_tcp();
    pending = ends.link->send(huge, 0, MessageKind::kActivation, 0);
    await_sending(before);
  }
  if (mode == "wait") ::pause();
  ::raise(SIGSTOP);
}

struct Told {
  std::string error;
  milliseconds after;
};

template <typename Action>
Told time_of_error(Action action) {
  const auto begin = Clock::now();
  std::string error = "no CommError";
  try {
    action();
  } catch (const CommError& thrown) {
    error = thrown.what();
  }
  return {error, std::chrono::duration_cast<milliseconds>(Clock::now() - begin)};
}

World listening_world() {
  FileDescriptor listener = listen_on("127.0.0.1", 0);
  World world = world_of(0, bound_port(listener.get()));
  world.master_listen_fd = listener.release();
  return world;
}

TEST(Processes, AKilledPeerEndsAReceiveAtOnce) {
  const World world = listening_world();
  const Peer peer("wait", world.master_port);
  const Ends ends = connect(world, kLong);
  at::Tensor small = at::zeros({kSmall.numel});
  Pending pending = ends.link->receive(small, 1, MessageKind::kGradient, 0);
  peer.kill();
  const Told told = time_of_error([&] { pending.wait([] { return "RECV_B of microbatch 0"; }); });
  EXPECT_THAT(told.error,
              HasSubstr("for RECV_B of microbatch 0 from rank 1 (pp 1): rank 1 ended or gave up"));
  EXPECT_LT(told.after, milliseconds(5000));
  const Told later = time_of_error([&] { ends.all->barrier().wait(); });
  EXPECT_THAT(later.error, HasSubstr("rank 0 (pp 0): barrier over ranks 0, 1 failed"));
  EXPECT_LT(later.after, milliseconds(5000));
}

TEST(Processes, APeerKilledInTheMiddleOfASendEndsItAtOnce) {
  const World world = listening_world();
  const Peer peer("receive", world.master_port);
  const Ends ends = connect(world, kLong);
  peer.await_stop();  // its receive is posted, but it does not read
  const int64_t before = bytes_sent_over_tcp();
  Pending pending = ends.link->send(at::zeros({kHuge.numel}), 1, MessageKind::kActivation, 0);
  await_sending(before);
  peer.kill();
  const Told told = time_of_error([&] { pending.wait([] { return "SEND_F of microbatch 0"; }); });
  EXPECT_THAT(told.error, HasSubstr("for SEND_F of microbatch 0 to rank 1 (pp 1): rank 1 ended or gave up"));
  EXPECT_LT(told.after, milliseconds(5000));
}

TEST(Processes, APeerKilledInTheMiddleOfAReceiveEndsItAtOnce) {
  const World world = listening_world();
  const Peer peer("send", world.master_port);
  const Ends ends = connect(world, kLong);
  at::Tensor huge = at::zeros({kHuge.numel});
  Pending pending = ends.link->receive(huge, 1, MessageKind::kActivation, 0);
  peer.await_stop();  // after the first part of the message
  peer.kill();
  const Told told = time_of_error([&] { pending.wait([] { return "RECV_F of microbatch 0"; }); });
  EXPECT_THAT(told.error,
              HasSubstr("for RECV_F of microbatch 0 from rank 1 (pp 1): rank 1 ended or gave up"));
  EXPECT_LT(told.after, milliseconds(5000));
}

TEST(Processes, AStoppedPeerRunsIntoTheTimeout) {
  const World world = listening_world();
  const Peer peer("stop", world.master_port);
  const Ends ends = connect(world, milliseconds(2000));
  peer.await_stop();
  Pending pending = ends.link->send(at::zeros({kHuge.numel}), 1, MessageKind::kActivation, 0);
  const Told told = time_of_error([&] { pending.wait([] { return "SEND_F of microbatch 0"; }); });
  // A busy machine makes both later than the timeout, but by far less than kLong.
  EXPECT_THAT(told.error,
              ContainsRegex("waited [2-9]\\.[0-9] s for SEND_F of microbatch 0 to rank 1 \\(pp 1\\): "
                            "no answer within the timeout"));
  EXPECT_GE(told.after, milliseconds(2000));
  EXPECT_LT(told.after, milliseconds(10'000));
  const Told barrier = time_of_error([&] { ends.all->barrier().wait(); });
  EXPECT_THAT(barrier.error, HasSubstr("timeout 2 s"));
  EXPECT_LT(barrier.after, milliseconds(10'000));
}

}  // namespace
}  // namespace braid::comm

// In place of gtest's: a process that a test has started as its peer runs no tests.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const char* mode = std::getenv(braid::comm::kModeVariable)) {
    braid::comm::be_peer(mode);
    return 0;
  }
  return RUN_ALL_TESTS();
}
