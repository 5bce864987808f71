#include "braid/launch/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "braid/base/error.h"

namespace braid::launch {
namespace {

int64_t bound_port(const FileDescriptor& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  require<InternalError>(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
                         "getsockname: ", std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Rendezvous open_rendezvous(const LaunchOptions& options) {
  if (options.nnodes > 1) {
    return {options.master_addr.value(), options.master_port.value_or(kDefaultMasterPort), {}};
  }
  const std::string host = options.master_addr.value_or("127.0.0.1");
  const std::string port = std::to_string(options.master_port.value_or(0));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  require<ConfigError>(status == 0, "--master_addr ", host, " cannot be resolved: ", ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);

  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const int handle =
        ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    if (handle < 0) {
      error = errno;
      continue;
    }
    FileDescriptor listener = take_descriptor(handle, "socket");
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::listen(listener.get(), SOMAXCONN) == 0) {
      const int64_t bound = bound_port(listener);
      return {host, bound, std::move(listener)};
    }
    error = errno;
  }
  if (error == EADDRINUSE) {
    throw ConfigError(
        cat("--master_port ", port, " of ", host,
            " is in use by another program; choose another, or on one node omit it to get a free one"));
  }
  throw ConfigError(cat("cannot listen on --master_addr ", host, " port ", port, ": ", std::strerror(error),
                        "; on one node omit --master_addr, or pass an address of this machine"));
}

}  // namespace braid::launch
