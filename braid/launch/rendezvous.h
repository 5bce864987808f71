// Where the ranks of a run meet.
#pragma once

#include <cstdint>
#include <string>

#include "braid/launch/file_descriptor.h"
#include "braid/launch/options.h"

namespace braid::launch {

struct Rendezvous {
  std::string master_addr{};
  int64_t master_port = 0;
  FileDescriptor listener{};  // empty on several nodes: rank 0 binds the port itself
};

/// The rendezvous of a run. On one node the returned socket already listens on --master_addr (default
/// 127.0.0.1) and
/// --master_port (default: a free one): no other program can take the port before rank 0 serves it, and ranks
/// that connect earlier wait in the socket's queue. Throws ConfigError if the host is unknown or the port is
/// taken.
Rendezvous open_rendezvous(const LaunchOptions& options);

}  // namespace braid::launch
