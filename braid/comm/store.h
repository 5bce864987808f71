// The run's key-value store, hosted by rank 0, and the handshake in it: are all ranks present, and do they
// agree?
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "braid/comm/world.h"

namespace braid::comm {

struct StoreOptions {
  std::string braid_version;                       // told when another version's startup protocol differs
  std::function<void(const std::string&)> report;  // on rank 0, receives a line about rejected connections,
                                                   // from another thread
};

/// The store that all ranks of `world` share. Collective over the world; a single rank gets a store in its
/// own memory. Rank 0 serves it on the address of world.master_addr and no other (on the socket
/// world.master_listen_fd if there is one, of which it takes ownership); the store ends with rank 0's last
/// reference. Where the launcher hosts a store at that address, the ranks use it only to tell the others
/// where rank 0 listens. Later waits on the store use `timeout` too.
///
/// Only ranks that know world.run_secret take part: both ends prove it before anything else is read, and
/// every later message carries a code. Ranks of one machine may have no secret; rank 0 then accepts processes
/// of its user on its machine alone. See docs/decisions/0019-the-rendezvous-knows-its-ranks.md.
///
/// Throws CommError naming address and port within about `timeout`: port in use, address not rank 0's, no
/// answer, another secret.
/// Throws ConfigError if ranks run on several nodes without a secret, or with a loopback address as the
/// master's.
c10::intrusive_ptr<c10d::Store> connect_store(const World& world, std::chrono::milliseconds timeout,
                                              const StoreOptions& options = {});

/// What must be equal on all ranks before a run starts.
struct Introduction {
  std::string braid_version;
  std::string config_fingerprint;  // equal texts mean equal settings
};

/// Returns once all ranks of `world` are present and agree. Collective over the world; once per store. A few
/// hundred bytes per rank.
/// Throws CommError on every rank that is present: after `timeout` naming the ranks that are missing; or a
/// moment after it is found that one was started twice, or has another world size, run id, braid version or
/// configuration than rank 0, naming both sides.
void handshake(c10d::Store& store, const World& world, const Introduction& mine,
               std::chrono::milliseconds timeout);

/// Throws CommError naming the process that already is rank 0 in `store`, and tells all ranks. For a process
/// that was started as rank 0 too. Local.
[[noreturn]] void report_second_rank_zero(c10d::Store& store, const World& world);

}  // namespace braid::comm
