// The run's key-value store, hosted by rank 0, and the first words in it: who is here, and do all agree.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "braid/comm/world.h"

namespace braid::comm {

/// The store that all ranks of `world` share. Collective over the world; one rank alone gets a store in its
/// own memory. Rank 0 listens on the address of world.master_addr and no other (on the socket
/// world.master_listen_fd if there is one, which it takes over); the store ends with rank 0's last
/// reference. Later waits on the store use `timeout` too.
/// Throws CommError naming address and port within about `timeout`: port in use, address not rank 0's,
/// nobody there.
/// Throws ConfigError if the master address is a loopback address but ranks run on several nodes.
c10::intrusive_ptr<c10d::Store> connect_store(const World& world, std::chrono::milliseconds timeout);

/// What every rank must have in common before it is let in.
struct Introduction {
  std::string braid_version;
  std::string config_fingerprint;  // equal texts mean equal settings
};

/// Returns once all ranks of `world` are there and agree. Collective over the world; once per store. A few
/// hundred bytes a rank.
/// Throws CommError, on every rank that is there, naming the ranks that: are missing after `timeout`; have
/// another world size, run id, braid version or configuration than rank 0. A second process with a rank
/// already taken throws, naming the first.
void handshake(c10d::Store& store, const World& world, const Introduction& mine,
               std::chrono::milliseconds timeout);

}  // namespace braid::comm
