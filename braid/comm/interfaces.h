// The network interfaces of this machine, and whether the variables that choose among them name any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid::comm {

struct NetworkInterface {
  std::string name;
  std::vector<std::string> addresses;  // numeric

  friend bool operator==(const NetworkInterface&, const NetworkInterface&) = default;
};

/// Those that are up and have an IPv4 or IPv6 address, in the system's order; empty if it does not tell.
std::vector<NetworkInterface> network_interfaces();

/// Throws ConfigError, naming the variable, its value and the interfaces there are, unless each
/// comma-separated name in `value` is one of `present`. For GLOO_SOCKET_IFNAME.
void check_gloo_interfaces(std::string_view value, const std::vector<NetworkInterface>& present);

/// The same for NCCL_SOCKET_IFNAME, whose names are beginnings of names, after "=" whole ones, and after "^"
/// those not to be used: at least one interface must remain.
void check_nccl_interfaces(std::string_view value, const std::vector<NetworkInterface>& present);

}  // namespace braid::comm
