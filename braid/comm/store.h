// The run's key-value store, hosted by rank 0, and the handshake in it: are all ranks present, and do they
// agree?
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "braid/comm/agreement.h"
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

/// Returns once all ranks of `world` are present and agree. Collective over the world; once per store. Some
/// kilobytes per rank.
/// Throws CommError on every rank that is present: after `timeout` naming the ranks that are missing; or a
/// moment after it is found that one was started twice, or has another world size, run id, braid version,
/// setting or file than rank 0, naming both sides.
void handshake(c10d::Store& store, const World& world, const Introduction& mine,
               std::chrono::milliseconds timeout);

/// For a rank that cannot take part, before it has connected: tells the others `reason`, who would otherwise
/// wait for it until their time limit. Does nothing where all ranks are on one node, because their launcher
/// ends them together. Takes a few seconds if rank 0 is not to be found; does not throw.
void tell_of_failure(const World& world, const std::string& reason, const StoreOptions& options);

/// Throws CommError naming the process that already is rank 0 in `store`, and tells all ranks. For a process
/// that was started as rank 0 too. Local.
[[noreturn]] void report_second_rank_zero(c10d::Store& store, const World& world);

}  // namespace braid::comm
