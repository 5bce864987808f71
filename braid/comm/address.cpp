#include "braid/comm/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::comm {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};

std::vector<SocketAddress> look_up(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  require<CommError>(code == 0, "cannot resolve host '", host, "': ", gai_strerror(code),
                     "; check MASTER_ADDR and the name service");
  const std::unique_ptr<addrinfo, AddressInfoDeleter> owner(found);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    addresses.push_back(address);
  }
  std::stable_sort(addresses.begin(), addresses.end(), [](const SocketAddress& a, const SocketAddress& b) {
    return a.family() == AF_INET && b.family() != AF_INET;
  });
  return addresses;
}

std::string numeric(const SocketAddress& address) {
  char text[NI_MAXHOST] = {};
  const int code = getnameinfo(address.get(), address.length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  require<CommError>(code == 0, "cannot format an address as text: ", gai_strerror(code));
  return text;
}

FileDescriptor open_socket(int family, int type) {
  FileDescriptor fd(::socket(family, type | SOCK_CLOEXEC, 0));
  require<CommError>(fd.get() >= 0, "cannot open a socket: ", std::strerror(errno));
  return fd;
}

SocketAddress local_end(int fd) {
  SocketAddress address;
  require<CommError>(::getsockname(fd, address.get(), &address.length) == 0, "file descriptor ", fd,
                     " is not a usable socket: ", std::strerror(errno));
  require<CommError>(address.family() == AF_INET || address.family() == AF_INET6, "file descriptor ", fd,
                     " is not a network socket");
  return address;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<std::string> resolve_host(const std::string& host) {
  std::vector<std::string> texts;
  for (const SocketAddress& address : look_up(host, 0)) texts.push_back(numeric(address));
  return texts;
}

bool is_loopback(const std::string& address) {
  in_addr four = {};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six = {};
  return inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

FileDescriptor listen_on(const std::string& host, int port) {
  std::string reasons;
  for (const SocketAddress& address : look_up(host, port)) {
    FileDescriptor fd = open_socket(address.family(), SOCK_STREAM);
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(fd.get(), address.get(), address.length) == 0 && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
    const int code = errno;
    reasons += cat(reasons.empty() ? "" : "; ", numeric(address), ": ", std::strerror(code));
    if (code == EADDRINUSE) reasons += " (another program or run uses this port: choose another MASTER_PORT)";
    if (code == EADDRNOTAVAIL)
      reasons += " (not an address of this machine: MASTER_ADDR must name the machine of rank 0)";
  }
  throw CommError(cat("rank 0 cannot listen on ", host, " port ", port, ": ", reasons));
}

int bound_port(int fd) {
  const SocketAddress address = local_end(fd);
  return address.family() == AF_INET
             ? ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port)
             : ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port);
}

std::string bound_address(int fd) { return numeric(local_end(fd)); }

std::string peer_address(int fd) {
  SocketAddress address;
  require<CommError>(::getpeername(fd, address.get(), &address.length) == 0, "file descriptor ", fd,
                     " is not connected: ", std::strerror(errno));
  return numeric(address);
}

FileDescriptor connect_to(const std::string& address, int port, std::chrono::milliseconds timeout) {
  const SocketAddress target = look_up(address, port).front();
  FileDescriptor fd = open_socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK);
  if (::connect(fd.get(), target.get(), target.length) != 0) {
    require<CommError>(errno == EINPROGRESS, std::strerror(errno));
    pollfd waiting = {.fd = fd.get(), .events = POLLOUT, .revents = 0};
    require<CommError>(::poll(&waiting, 1, static_cast<int>(timeout.count())) > 0, "no answer");
    int code = 0;
    socklen_t length = sizeof(code);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &length);
    require<CommError>(code == 0, std::strerror(code));
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

std::string local_address_towards(const std::string& host) {
  constexpr int kAnyPort = 9;  // connecting a datagram socket only selects the route
  const SocketAddress target = look_up(host, kAnyPort).front();
  if (is_loopback(numeric(target))) return numeric(target);
  const FileDescriptor fd = open_socket(target.family(), SOCK_DGRAM);
  require<CommError>(::connect(fd.get(), target.get(), target.length) == 0, "no route to ", host, ": ",
                     std::strerror(errno), "; check MASTER_ADDR");
  return bound_address(fd.get());
}

std::optional<std::string> network_stack() {
  // A namespace's number is unique only until the machine starts again; the first number is even a constant.
  std::string start;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), start);
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/net", error).string();
  if (start.empty() || space.empty()) return std::nullopt;
  return cat(start, ' ', space);
}

}  // namespace braid::comm
