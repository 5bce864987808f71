#include "braid/comm/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::vector<NetworkInterface> kPresent = {{.name = "lo", .addresses = {"127.0.0.1", "::1"}},
                                                {.name = "eth0", .addresses = {"10.0.0.2"}},
                                                {.name = "eth1", .addresses = {"10.0.1.2"}}};

template <typename Check>
std::string rejection(Check check, const char* value) {
  try {
    check(value, kPresent);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Interfaces, TheLoopbackDeviceIsAmongThem) {
  std::vector<std::string> addresses;
  for (const NetworkInterface& interface : network_interfaces()) {
    EXPECT_FALSE(interface.addresses.empty());
    addresses.insert(addresses.end(), interface.addresses.begin(), interface.addresses.end());
  }
  EXPECT_THAT(addresses, Contains("127.0.0.1"));
}

TEST(Interfaces, GlooNeedsNamesThatExist) {
  for (const char* right : {"eth0", "eth0,eth1", " lo , eth1"})
    EXPECT_EQ(rejection(check_gloo_interfaces, right), "accepted");
  for (const char* wrong : {"eth", "eth7", "eth0,", "eth0,eth7", "=eth0", "10.0.0.2"}) {
    const std::string text = rejection(check_gloo_interfaces, wrong);
    EXPECT_THAT(text, HasSubstr(cat("GLOO_SOCKET_IFNAME='", wrong, "'")));
    EXPECT_THAT(text, HasSubstr("it has lo (127.0.0.1), eth0 (10.0.0.2), eth1 (10.0.1.2)"));
  }
}

TEST(Interfaces, NcclNeedsOneThatIsLeft) {
  for (const char* right : {"eth", "eth7,eth1", "=eth0", "^lo", "^=lo,eth0", "^docker"})
    EXPECT_EQ(rejection(check_nccl_interfaces, right), "accepted") << right;
  for (const char* wrong : {"ib", "=eth", "^lo,eth", "^=lo,eth0,eth1", "="}) {
    EXPECT_THAT(rejection(check_nccl_interfaces, wrong), HasSubstr(cat("NCCL_SOCKET_IFNAME='", wrong, "'")));
  }
}

}  // namespace
}  // namespace braid::comm
