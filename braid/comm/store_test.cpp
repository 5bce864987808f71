#include "braid/comm/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <thread>

#include "braid/base/error.h"
#include "braid/comm/address.h"
#include "braid/comm/testing.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

constexpr milliseconds kPlenty = milliseconds(20'000);

int free_port() { return bound_port(listen_on("127.0.0.1", 0).get()); }

World world_of(int rank, int size, int port) {
  return {.rank = rank,
          .world_size = size,
          .local_rank = rank,
          .local_world_size = size,
          .master_port = port,
          .source = "a test"};
}

std::string connect_error(const World& world, milliseconds timeout) {
  try {
    connect_store(world, timeout);
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

// Rank 0, whose store the others still use, leaves last.
void leave(c10d::Store& store, const World& world) {
  if (world.rank != 0) return store.set(cat("left", world.rank), "");
  for (int rank = 1; rank < world.world_size; ++rank) store.wait({cat("left", rank)});
}

// The addresses on which this machine listens on `port`, in the notation of /proc.
std::vector<std::string> listening_addresses(int port) {
  std::vector<std::string> addresses;
  std::ostringstream hex;
  hex << std::uppercase << std::hex << port;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state;
      fields >> number >> local >> remote >> state;
      const size_t colon = local.find(':');
      if (state == "0A" && colon != local.npos && local.substr(colon + 1) == hex.str())
        addresses.push_back(local.substr(0, colon));
    }
  }
  return addresses;
}

TEST(Address, LoopbackAndLocalAddresses) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.1.2.3"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_FALSE(is_loopback("fe80::1"));
  EXPECT_FALSE(is_loopback("localhost"));
  EXPECT_EQ(local_address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(resolve_host("127.0.0.1"), std::vector<std::string>{"127.0.0.1"});
  EXPECT_THROW(resolve_host("no-such-host.invalid"), CommError);
}

TEST(Store, OneRankNeedsNoNetwork) {
  const auto store = connect_store({}, kPlenty);
  handshake(*store, {}, {.braid_version = "1"}, kPlenty);
}

TEST(Store, RanksShareWhatIsSetAndOnlyTheMasterAddressListens) {
  const int port = free_port();
  run_ranks(3, [port](const World& threads, const c10::intrusive_ptr<c10d::Store>&) {
    const World world = world_of(threads.rank, 3, port);
    const auto store = connect_store(world, kPlenty);
    handshake(*store, world, {.braid_version = "1"}, kPlenty);
    store->set(cat("from", world.rank), cat("value", world.rank));
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(store->get_to_str(cat("from", rank)), cat("value", rank));
    EXPECT_EQ(listening_addresses(port), std::vector<std::string>{"0100007F"});
    leave(*store, world);
  });
}

TEST(Store, TakesOverAnInheritedSocket) {
  FileDescriptor listener = listen_on("127.0.0.1", 0);
  const int port = bound_port(listener.get());
  const int fd = listener.release();
  run_ranks(2, [port, fd](const World& threads, const c10::intrusive_ptr<c10d::Store>&) {
    World world = world_of(threads.rank, 2, port);
    if (world.rank == 0) world.master_listen_fd = fd;
    const auto store = connect_store(world, kPlenty);
    handshake(*store, world, {}, kPlenty);
    leave(*store, world);
  });
  EXPECT_TRUE(listening_addresses(port).empty()) << "the end of the store closes it";
}

TEST(Store, SeveralNodesNeedASecret) {
  World world = world_of(1, 2, free_port());
  world.local_world_size = 1;
  world.master_addr = "192.0.2.1";
  try {
    connect_store(world, kPlenty);
    FAIL() << "no ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("BRAID_RUN_SECRET is not set: set it to the same secret on every node"));
  }
}

TEST(Store, AnInheritedSocketMustBeOne) {
  World world = world_of(0, 2, free_port());
  world.master_listen_fd = ::dup(STDERR_FILENO);
  EXPECT_THAT(connect_error(world, kPlenty), HasSubstr("not a"));
  world.master_listen_fd = listen_on("127.0.0.1", 0).release();
  EXPECT_THAT(connect_error(world, kPlenty), HasSubstr(cat("MASTER_PORT is ", world.master_port)));
}

TEST(Store, PortInUseAndForeignAddressAreSaidSo) {
  const FileDescriptor other = listen_on("127.0.0.1", 0);
  const int port = bound_port(other.get());
  EXPECT_THAT(connect_error(world_of(0, 2, port), kPlenty),
              testing::AllOf(HasSubstr("127.0.0.1"), HasSubstr(std::to_string(port)),
                             HasSubstr("choose another MASTER_PORT")));
  World world = world_of(0, 2, port);
  world.master_addr = "192.0.2.1";  // reserved for documentation: no machine has it
  EXPECT_THAT(connect_error(world, kPlenty),
              testing::AllOf(HasSubstr("192.0.2.1"), HasSubstr("machine of rank 0")));
  world.local_world_size = 1;
  world.run_secret = "a secret of this test";
  world.master_addr = "127.0.0.1";
  EXPECT_THROW(connect_store(world, kPlenty), ConfigError)
      << "ranks on two nodes cannot meet on a loopback address";
}

TEST(Store, AnAbsentRankZeroIsSaidSoInTime) {
  const int port = free_port();
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = connect_error(world_of(1, 2, port), milliseconds(400));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(2000));
  EXPECT_THAT(error, HasSubstr(cat("rank 1 found no rank 0 at 127.0.0.1 port ", port,
                                   " within 0.4 s (Connection refused)")));
}

TEST(Store, SomethingElseOnThePortIsSaidSoInTime) {
  const FileDescriptor silent = listen_on("127.0.0.1", 0);  // accepts connections and never answers
  const int port = bound_port(silent.get());
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = connect_error(world_of(1, 2, port), milliseconds(1000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  EXPECT_THAT(error, testing::AllOf(HasSubstr("127.0.0.1"), HasSubstr(std::to_string(port))));
}

// Each of three ranks performs the handshake with its own version of the world.
std::vector<std::optional<std::string>> shake(const std::function<void(World&, Introduction&)>& change,
                                              milliseconds timeout = kPlenty) {
  return run_failing_ranks(3, [&](const World& threads, const c10::intrusive_ptr<c10d::Store>& store) {
    World world = threads;
    Introduction mine = {.braid_version = "1.0", .settings = {{"seed", "1"}}};
    change(world, mine);
    if (world.rank >= 0) handshake(*store, world, mine, timeout);
  });
}

TEST(Handshake, EqualRanksPass) {
  for (const auto& message : shake([](World&, Introduction&) {}))
    EXPECT_FALSE(message.has_value()) << *message;
}

TEST(Handshake, WhoDiffersIsToldToAll) {
  const auto versions = shake([](World& world, Introduction& mine) {
    if (world.rank == 1) mine.braid_version = "2.0";
  });
  const auto settings = shake([](World& world, Introduction& mine) {
    if (world.rank == 0) mine.settings = {{"seed", "2"}};
  });
  const auto sizes = shake([](World& world, Introduction&) {
    if (world.rank == 2) world.world_size = 4;
  });
  const auto runs =
      shake([](World& world, Introduction&) { world.run_id = world.rank == 2 ? "new" : "old"; });
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(versions[rank] && settings[rank] && sizes[rank] && runs[rank]);
    EXPECT_THAT(*versions[rank], HasSubstr("braid version: ranks 0, 2 have 1.0, rank 1 has 2.0"));
    EXPECT_THAT(*settings[rank], HasSubstr("the ranks do not agree: seed: rank 0 has 2, ranks 1, 2 have 1"));
    EXPECT_THAT(*sizes[rank], HasSubstr("world size: ranks 0, 1 have 3, rank 2 has 4"));
    EXPECT_THAT(*runs[rank], HasSubstr("run id: ranks 0, 1 have old, rank 2 has new"));
    EXPECT_THAT(*runs[rank], Not(HasSubstr("seed")));
  }
}

TEST(Handshake, MissingRanksAreNamedOnAllThatAreThere) {
  const auto messages = shake(
      [](World& world, Introduction&) {
        if (world.rank == 1) world.rank = -1;
      },
      milliseconds(300));
  EXPECT_FALSE(messages[1].has_value());
  for (const size_t rank : {0u, 2u}) {
    ASSERT_TRUE(messages[rank].has_value());
    EXPECT_THAT(*messages[rank], HasSubstr("rank 1 of 3 did not arrive within 0.3 s"));
  }
}

TEST(Handshake, ARankBeyondTheWorldIsToldToAll) {
  // Ranks 0 and 1 would be complete without it, so they begin when it is there.
  const auto messages =
      run_failing_ranks(3, [&](const World& threads, const c10::intrusive_ptr<c10d::Store>& store) {
        World world = threads;
        world.world_size = world.rank == 2 ? 3 : 2;
        if (world.rank != 2) store->wait({"braid/event/1"});
        handshake(*store, world, {}, kPlenty);
      });
  for (const auto& message : messages) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, HasSubstr("rank 2 has 3"));
  }
}

TEST(Handshake, ALateRankBeyondTheWorldGetsAMessage) {
  const auto messages =
      run_failing_ranks(3, [&](const World& threads, const c10::intrusive_ptr<c10d::Store>& store) {
        World world = threads;
        world.world_size = world.rank == 2 ? 3 : 2;
        if (world.rank == 2) store->wait({"others are through"});
        handshake(*store, world, {}, kPlenty);
        if (world.rank == 0) store->set("others are through", "");
      });
  EXPECT_FALSE(messages[0].has_value());
  EXPECT_FALSE(messages[1].has_value());
  EXPECT_EQ(messages[2], "rank 2 was started with a world size of 3, but rank 0 with 2");
}

TEST(Handshake, AFaultEndsTheWaitForMissingRanks) {
  const auto begin = std::chrono::steady_clock::now();
  const auto messages = shake([](World& world, Introduction& mine) {
    if (world.rank == 1) mine.settings = {{"seed", "2"}};
    if (world.rank == 2) world.rank = -1;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPlenty / 2);
  for (const size_t rank : {0u, 1u}) {
    ASSERT_TRUE(messages[rank].has_value());
    EXPECT_THAT(*messages[rank], HasSubstr("seed: rank 0 has 1, rank 1 has 2"));
  }
}

// As where one machine has a stale file, and its other ranks do not read it.
TEST(Handshake, MachinesWithOtherFilesAreToldToAll) {
  const auto messages = shake([](World& world, Introduction& mine) {
    if (world.rank == 0) mine.files = {{.path = "d/a.bin", .content = "sha256:1"}, {"d/a.idx", "sha256:2"}};
    if (world.rank == 2)
      mine.files = {{.path = "d/a.bin", .content = "cannot be read: Permission denied"},
                    {"d/a.idx", "sha256:2"}};
  });
  for (const auto& message : messages) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, HasSubstr("d/a.bin is sha256:1 on "));
    EXPECT_THAT(*message, HasSubstr(", but cannot be read: Permission denied on "));
    EXPECT_THAT(*message, HasSubstr("(rank 2)"));
    EXPECT_THAT(*message, Not(HasSubstr("a.idx")));
  }
}

TEST(Handshake, ASecondProcessOfARankIsToldToAll) {
  const auto begin = std::chrono::steady_clock::now();
  std::array<std::string, 3> messages;
  run_ranks(3, [&](const World& threads, const c10::intrusive_ptr<c10d::Store>& store) {
    World world = threads;
    if (world.rank == 2) {
      store->wait({"braid/rank/1"});
      world.rank = 1;
    }
    try {
      handshake(*store, world, {}, kPlenty);
    } catch (
        const CommError& error) {  // here, because the end of a thread's rank ends all waits on the store
      messages[static_cast<size_t>(threads.rank)] = error.what();
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPlenty / 2);
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr(cat("rank 1 is taken by process ", ::getpid())));
    EXPECT_THAT(message, HasSubstr("same --node_rank"));
  }
}

}  // namespace
}  // namespace braid::comm
