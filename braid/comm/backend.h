// Groups of ranks, and the c10d backend (Gloo or NCCL) that connects a group.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "braid/comm/world.h"

namespace braid::comm {

/// The ranks that share one line of a mesh axis, as seen by one of them.
struct Group {
  std::string axis;        // "pp", "dp", ...: for messages and for keys in the store
  std::vector<int> ranks;  // global ranks, in the order of the axis; the same list on all of them
  int index = 0;           // of this process in `ranks`

  int size() const { return static_cast<int>(ranks.size()); }
  int rank() const { return ranks[static_cast<size_t>(index)]; }
};

/// The group of all ranks of `world`, in their order.
Group group_of_all(const World& world, std::string axis);

/// "rank 5 (pp 1)": member `index` of the group, for messages.
std::string member_name(const Group& group, int index);

struct BackendOptions {
  c10::Device device = c10::Device(c10::kCPU);  // CPUs communicate through Gloo, GPUs through NCCL
  std::chrono::milliseconds timeout = std::chrono::seconds(300);  // for connecting and for every later wait
  /// Where Gloo listens for a group that spans several machines. Others listen on the loopback device.
  std::string local_address = "127.0.0.1";
  std::string interfaces;  // if not empty, all listen on these network interfaces instead, comma-separated
};

/// Options for the ranks of `world`: the groups that span several machines listen on the address from which
/// this machine reaches the master.
/// `gloo_socket_ifname` is the variable GLOO_SOCKET_IFNAME as the caller read it, or empty. Throws CommError
/// naming the master if there is no route to it.
BackendOptions backend_options(const World& world, c10::Device device, std::chrono::milliseconds timeout,
                               std::string gloo_socket_ifname);

/// A backend whose members can all reach one another. Collective over the group; `key` must be equal on all
/// members and new in the store. Through the store the members find out whether they are on one machine; then
/// Gloo uses the loopback device, which no other machine reaches.
/// Throws CommError naming the members that did not arrive in time, ConfigError if the backend is not built
/// in.
c10::intrusive_ptr<c10d::Backend> connect_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const std::string& key, const Group& group,
                                                  const BackendOptions& options);

/// Gloo over TCP, all members connected on return.
/// Throws ConfigError naming BRAID_WITH_GLOO in a build without it.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int index,
                                                    int size, const BackendOptions& options);

/// NCCL; connects on the first message.
/// Throws ConfigError naming BRAID_CUDA in a build without it.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int index,
                                                    int size, const BackendOptions& options);

}  // namespace braid::comm
