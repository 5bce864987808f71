#include "braid/comm/store.h"

#include <algorithm>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/address.h"
#include "braid/comm/broken_pipe.h"
#include "braid/comm/error_text.h"
#include "braid/comm/store_host.h"
#include "braid/comm/store_joiner.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// How long a second rank 0 looks for the first.
constexpr milliseconds kSecondRankZero(5000);

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

bool has_several_nodes(const World& world) { return world.local_world_size < world.world_size; }

StorePtr join(const World& world, const std::string& host, int port, milliseconds timeout,
              const StoreOptions& options) {
  return c10::make_intrusive<JoinedStore>(JoinOptions{.host = host,
                                                      .port = port,
                                                      .secret = world.run_secret,
                                                      .rank = world.rank,
                                                      .braid_version = options.braid_version},
                                          timeout);
}

StorePtr serve(const World& world, FileDescriptor listener, milliseconds timeout,
               const StoreOptions& options) {
  StorePtr store = c10::make_intrusive<HostedStore>(
      std::move(listener),
      HostOptions{
          .secret = world.run_secret, .braid_version = options.braid_version, .report = options.report});
  store->setTimeout(timeout);
  return store;
}

// Another node's process may have been started as rank 0 as well: then it has the address or the port.
void look_for_another_rank_zero(const World& world, milliseconds timeout, const StoreOptions& options) {
  StorePtr other;
  try {
    other = join(world, world.master_addr, world.master_port, std::min(timeout, kSecondRankZero), options);
  } catch (const std::exception&) {
    return;  // the reason why this process cannot listen says more
  }
  report_second_rank_zero(*other, world);
}

FileDescriptor open_listener(const World& world, milliseconds timeout, const StoreOptions& options) {
  try {
    FileDescriptor listener = world.master_listen_fd ? FileDescriptor(*world.master_listen_fd)
                                                     : listen_on(world.master_addr, world.master_port);
    require<CommError>(bound_port(listener.get()) == world.master_port,
                       "BRAID_MASTER_LISTEN_FD is a socket on port ", bound_port(listener.get()),
                       ", but MASTER_PORT is ", world.master_port);
    return listener;
  } catch (const CommError&) {
    if (has_several_nodes(world)) look_for_another_rank_zero(world, timeout, options);
    throw;
  }
}

// The store of torchrun's agent, which talks to anyone.
StorePtr join_agent(const World& world, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.waitWorkers = false;
  options.timeout = timeout;
  // The client waits indefinitely for the server's first message, which another program on that port never
  // sends. So it starts in a thread of its own, which is abandoned in that case: it holds only a socket.
  std::promise<StorePtr> promise;
  std::future<StorePtr> store = promise.get_future();
  std::thread([promise = std::move(promise), host = world.master_addr, options]() mutable {
    try {
      promise.set_value(c10::make_intrusive<c10d::TCPStore>(std::move(host), options));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  require<CommError>(store.wait_for(timeout) == std::future_status::ready, "rank ", world.rank,
                     " found no store of ", world.source, " at ", world.master_addr, " port ",
                     world.master_port, " within ", to_text(static_cast<double>(timeout.count()) / 1000.0),
                     " s: is its agent running, and are MASTER_ADDR and MASTER_PORT correct?");
  return store.get();
}

void require_reachable(const World& world, const std::string& address) {
  require<ConfigError>(
      !has_several_nodes(world) || !is_loopback(address), "MASTER_ADDR=", world.master_addr, " is ", address,
      " here, which other nodes cannot reach: use an address of this machine in the shared network");
}

// The agent's store says where rank 0 serves the run's own. Whoever else writes there can make ranks look in
// a wrong place, where nobody knows the secret.
StorePtr meet_through_agent(const World& world, milliseconds timeout, const StoreOptions& options) {
  constexpr const char* kAddressKey = "rank_0";
  const Clock::time_point deadline = Clock::now() + timeout;
  // It also contains the launcher's own keys and those of earlier attempts at this run.
  c10d::PrefixStore agent(cat("braid/", world.attempt), join_agent(world, timeout));
  if (world.rank == 0) {
    const std::string address =
        has_several_nodes(world) ? local_address_towards(world.master_addr) : std::string("127.0.0.1");
    require_reachable(world, address);
    FileDescriptor listener = listen_on(address, 0);
    const int port = bound_port(listener.get());
    StorePtr store = serve(world, std::move(listener), timeout, options);
    static_cast<c10d::Store&>(agent).set(kAddressKey, cat(address, " ", port));
    return store;
  }
  agent.wait({kAddressKey}, left_until(deadline));
  const std::string text = agent.get_to_str(kAddressKey);
  const std::vector<std::string> words = split(text, ' ');
  const std::optional<int64_t> port = words.size() == 2 ? parse_int(words[1]) : std::nullopt;
  require<CommError>(port && *port >= 1 && *port <= 65535, "the store of ", world.source, " at ",
                     world.master_addr, " port ", world.master_port, " gives '", text.substr(0, 80),
                     "' as the address of rank 0: another program uses it");
  return join(world, words[0], static_cast<int>(*port), left_until(deadline), options);
}

}  // namespace

StorePtr connect_store(const World& world, milliseconds timeout, const StoreOptions& options) {
  require<ConfigError>(timeout >= milliseconds(1), "the time limit for connecting must be at least 1 ms");
  if (world.world_size == 1) {
    if (world.master_listen_fd) const FileDescriptor unused(*world.master_listen_fd);
    return c10::make_intrusive<c10d::HashStore>();
  }
  require<ConfigError>(
      !has_several_nodes(world) || !world.run_secret.empty(), "the ranks run on several nodes, but ",
      kSecretVariable,
      " is not set: set it to the same secret on every node; openssl rand -hex 32 makes one");
  const BrokenPipeGuard guard;  // inherited by the threads of c10d
  try {
    if (world.store_is_hosted) return meet_through_agent(world, timeout, options);
    if (world.rank != 0) return join(world, world.master_addr, world.master_port, timeout, options);
    require_reachable(world, resolve_host(world.master_addr).front());
    return serve(world, open_listener(world, timeout, options), timeout, options);
  } catch (const c10::Error& error) {
    throw CommError(cat("rank ", world.rank, " could not open the store at ", world.master_addr, " port ",
                        world.master_port, ": ", short_reason(error)));
  }
}

}  // namespace braid::comm
