// Addresses and sockets for the rendezvous: opens no more to the network than the run needs.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace braid::comm {

/// A file descriptor with an owner; closed by the destructor unless released.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) = delete;

  int get() const { return fd_; }

  /// The descriptor; the caller now owns it.
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

/// The numeric addresses of a host name or address, IPv4 first.
/// Throws CommError naming the host if it has none.
std::vector<std::string> resolve_host(const std::string& host);

/// Whether a numeric address is on the loopback device.
bool is_loopback(const std::string& address);

/// A TCP socket that listens on the first of the host's addresses that this machine has, and on no other.
/// `port` 0 chooses a free one.
/// Throws CommError naming host, port and reason: not this machine's, in use, not allowed.
FileDescriptor listen_on(const std::string& host, int port);

/// The local port a socket is bound to.
/// Throws CommError if `fd` is not a bound socket.
int bound_port(int fd);

/// The numeric local address that `fd` is bound to. Throws CommError likewise.
std::string bound_address(int fd);

/// The numeric address of the other end of the connected socket `fd`. Throws CommError if it is not
/// connected.
std::string peer_address(int fd);

/// A connection to a numeric address, without delay for small messages.
/// Throws CommError with the reason alone: "Connection refused", "no answer".
FileDescriptor connect_to(const std::string& address, int port, std::chrono::milliseconds timeout);

/// The numeric address from which this machine reaches `host`: the loopback address itself if `host` is one,
/// else the address of the interface on the route. Sends nothing.
/// Throws CommError naming the host if there is no route.
std::string local_address_towards(const std::string& host);

/// Names the network stack of this process: equal for two processes exactly if both are in the same network
/// namespace of the same machine, and so reach each other on the loopback device. Nothing if the system does
/// not tell.
std::optional<std::string> network_stack();

}  // namespace braid::comm
