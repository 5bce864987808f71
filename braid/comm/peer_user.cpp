#include "braid/comm/peer_user.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "braid/base/text.h"

namespace braid::comm {
namespace {

// An address and port as /proc/net/tcp writes them: each 32-bit word of the address in the machine's byte
// order.
std::string proc_text(const sockaddr_storage& end) {
  char piece[16];
  std::string text;
  const auto words = [&](const void* address, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t word = 0;
      std::memcpy(&word, static_cast<const char*>(address) + 4 * i, sizeof word);
      std::snprintf(piece, sizeof piece, "%08X", word);
      text += piece;
    }
  };
  uint16_t port = 0;
  if (end.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(end);
    words(&six.sin6_addr, 4);
    port = ntohs(six.sin6_port);
  } else {
    const auto& four = reinterpret_cast<const sockaddr_in&>(end);
    words(&four.sin_addr, 1);
    port = ntohs(four.sin_port);
  }
  std::snprintf(piece, sizeof piece, ":%04X", port);
  return text + piece;
}

}  // namespace

std::optional<uid_t> user_of_peer(int fd) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
    return std::nullopt;
  const std::string here = proc_text(own), there = proc_text(peer);
  std::ifstream table(own.ss_family == AF_INET6 ? "/proc/net/tcp6" : "/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    // A socket that nobody holds any longer has inode 0 and is listed as root's.
    constexpr const char* kEstablished = "01";
    if (local == there && remote == here && state == kEstablished && inode != "0") {
      if (const std::optional<int64_t> user = parse_int(uid)) return static_cast<uid_t>(*user);
    }
  }
  return std::nullopt;
}

}  // namespace braid::comm
