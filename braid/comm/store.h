// The run's key-value store, hosted by rank 0, and the handshake in it: are all ranks present, and do they
// agree?
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "braid/comm/world.h"

namespace braid::comm {

/// The store that all ranks of `world` share. Collective over the world; a single rank gets a store in its
/// own memory. Rank 0 listens on the address of world.master_addr and no other (on the socket
/// world.master_listen_fd if there is one, of which it takes ownership); the store ends with rank 0's last
/// reference. Later waits on the store use `timeout` too.
/// Throws CommError naming address and port within about `timeout`: port in use, address not rank 0's, no
/// answer.
/// Throws ConfigError if the master address is a loopback address but ranks run on several nodes.
c10::intrusive_ptr<c10d::Store> connect_store(const World& world, std::chrono::milliseconds timeout);

/// What must be equal on all ranks before a run starts.
struct Introduction {
  std::string braid_version;
  std::string config_fingerprint;  // equal texts mean equal settings
};

/// Returns once all ranks of `world` are present and agree. Collective over the world; once per store. A few
/// hundred bytes per rank.
/// Throws CommError, on every rank that is present, naming the ranks that are missing after `timeout` or that
/// have another world size, run id, braid version or configuration than rank 0. A second process with a rank
/// already taken throws, naming the first.
void handshake(c10d::Store& store, const World& world, const Introduction& mine,
               std::chrono::milliseconds timeout);

}  // namespace braid::comm
