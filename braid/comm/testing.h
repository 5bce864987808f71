// For tests: the ranks of a world as threads of one process.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "braid/comm/backend.h"
#include "braid/comm/world.h"

namespace braid::comm {

/// The body of one rank in a test.
using RankBody = std::function<void(const World& world, const c10::intrusive_ptr<c10d::Store>& store)>;

/// A rank of run_ranks that threw: "rank 2: <its message>", and its exception.
struct RankFailure : std::runtime_error {
  RankFailure(int failed_rank, const std::string& message, std::exception_ptr thrown)
      : std::runtime_error(message), rank(failed_rank), cause(std::move(thrown)) {}
  int rank;
  std::exception_ptr cause;
};

/// Runs `body` for ranks 0 .. n - 1, each in a thread of its own, with one store in memory, and returns when
/// all have ended. When one throws, every wait on the store ends with an error, and the peers of its links
/// and communicators see its connections close as its stack unwinds, so that the others end too.
/// Throws RankFailure with the first failure that is not a CommError, or else the first.
void run_ranks(int n, const RankBody& body);

/// Like run_ranks, but returns the message of each rank's exception, or nothing for a rank that succeeded.
std::vector<std::optional<std::string>> run_failing_ranks(int n, const RankBody& body);

/// The file descriptors of this process's TCP sockets.
std::vector<int> tcp_sockets();

/// The bytes that the kernel has sent over the TCP connections that this process has open.
int64_t bytes_sent_over_tcp();

}  // namespace braid::comm
