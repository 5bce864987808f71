#include "braid/comm/backend.h"

#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"
#include "braid/comm/address.h"
#include "braid/comm/broken_pipe.h"
#include "braid/comm/error_text.h"

namespace braid::comm {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

// The members whose key is not in the store, for a person.
std::string missing_members(c10d::Store& store, const Group& group, const std::vector<std::string>& keys) {
  std::string missing;
  for (int index = 0; index < group.size(); ++index) {
    if (store.check({keys[static_cast<size_t>(index)]})) continue;
    missing += cat(missing.empty() ? "" : ", ", member_name(group, index));
  }
  return missing;
}

// One small key per member makes it possible to name the missing ones: the backends' own rendezvous only says
// that some are missing. Returns whether the loopback device connects all members.
bool await_members(c10d::Store& store, const Group& group, std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int index = 0; index < group.size(); ++index) keys.push_back(cat("member/", index));
  const std::string own_network =
      network_stack().value_or(cat("unknown, of rank ", group.rank()));  // which is no other's
  try {
    store.set(keys[static_cast<size_t>(group.index)], own_network);
    try {
      store.wait(keys, timeout);
    } catch (const std::exception& error) {
      const std::string missing = missing_members(store, group, keys);
      throw CommError(cat(member_name(group, group.index), " waited ",
                          static_cast<double>(timeout.count()) / 1000.0, " s to connect to ",
                          missing.empty() ? short_reason(error) : missing, ": see their logs"));
    }
    return std::ranges::all_of(keys,
                               [&](const std::string& key) { return store.get_to_str(key) == own_network; });
  } catch (const c10::Error& error) {
    // Rank 0 holds the store, and has ended: its own message says why.
    throw CommError(
        cat(member_name(group, group.index), " lost the store: ", short_reason(error), "; see rank 0's log"));
  }
}

}  // namespace

Group group_of_all(const World& world, std::string axis) {
  Group group = {.axis = std::move(axis),
                 .ranks = std::vector<int>(static_cast<size_t>(world.world_size)),
                 .index = world.rank};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

std::string member_name(const Group& group, int index) {
  return cat("rank ", group.ranks[static_cast<size_t>(index)], " (", group.axis, " ", index, ")");
}

BackendOptions backend_options(const World& world, c10::Device device, std::chrono::milliseconds timeout,
                               std::string gloo_socket_ifname) {
  BackendOptions options = {
      .device = device, .timeout = timeout, .interfaces = std::move(gloo_socket_ifname)};
  if (device.is_cpu() && world.local_world_size < world.world_size)
    options.local_address = local_address_towards(world.master_addr);
  return options;
}

c10::intrusive_ptr<c10d::Backend> connect_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const std::string& key, const Group& group,
                                                  const BackendOptions& options) {
  require<ConfigError>(options.timeout >= std::chrono::milliseconds(1),
                       "the communication timeout must be at least 1 ms");
  require<InternalError>(0 <= group.index && group.index < group.size(), "member ", group.index,
                         " of a group of ", group.size());
  const auto own_keys = c10::make_intrusive<c10d::PrefixStore>(key, store);
  BackendOptions used = options;
  if (await_members(*own_keys, group, options.timeout)) used.local_address = kLoopback;
  const BrokenPipeGuard guard;  // inherited by the backend's threads
  try {
    return options.device.is_cuda() ? make_nccl_backend(own_keys, group.index, group.size(), used)
                                    : make_gloo_backend(own_keys, group.index, group.size(), used);
  } catch (const ConfigError&) {
    throw;
  } catch (const std::system_error&) {  // this process can start no thread or open no socket
    throw;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw CommError(cat(member_name(group, group.index), " could not connect to the other ",
                        counted(group.size() - 1, "rank"), " of its ", group.axis,
                        " group: ", short_reason(error)));
  }
}

}  // namespace braid::comm
