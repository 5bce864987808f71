#include "braid/comm/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::comm {
namespace {

std::string names_text(const std::vector<NetworkInterface>& present) {
  std::string text;
  for (const NetworkInterface& interface : present) {
    text += cat(text.empty() ? "" : ", ", interface.name, " (", interface.addresses.front(), ")");
  }
  return text;
}

bool is_present(std::string_view name, const std::vector<NetworkInterface>& present) {
  return std::ranges::any_of(present, [&](const NetworkInterface& one) { return one.name == name; });
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, &::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text = {};
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(entry->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    auto known = std::ranges::find(interfaces, std::string_view(entry->ifa_name), &NetworkInterface::name);
    if (known == interfaces.end())
      known = interfaces.insert(known, {.name = entry->ifa_name, .addresses = {}});
    known->addresses.emplace_back(text.data());
  }
  return interfaces;
}

void check_gloo_interfaces(std::string_view value, const std::vector<NetworkInterface>& present) {
  if (present.empty()) return;
  for (const std::string& piece : split(value, ',')) {
    require<ConfigError>(is_present(trim(piece), present), "GLOO_SOCKET_IFNAME='", value,
                         "' in the environment: this machine has no network interface '", trim(piece),
                         "' with an address; it has ", names_text(present),
                         ". Name some of them, separated by commas, or unset the variable");
  }
}

void check_nccl_interfaces(std::string_view value, const std::vector<NetworkInterface>& present) {
  if (present.empty()) return;
  std::string_view names = trim(value);
  const bool excludes = names.starts_with('^');
  if (excludes) names.remove_prefix(1);
  const bool is_whole = names.starts_with('=');
  if (is_whole) names.remove_prefix(1);
  const std::vector<std::string> pieces = split(names, ',');
  const bool has_one = std::ranges::any_of(present, [&](const NetworkInterface& interface) {
    const bool matches = std::ranges::any_of(pieces, [&](const std::string& piece) {
      const std::string_view name = trim(piece);
      return !name.empty() && (is_whole ? interface.name == name : interface.name.starts_with(name));
    });
    return matches != excludes;
  });
  require<ConfigError>(has_one, "NCCL_SOCKET_IFNAME='", value,
                       "' in the environment leaves no network interface of this machine; it has ",
                       names_text(present), ". Name one of them, or unset the variable");
}

}  // namespace braid::comm
