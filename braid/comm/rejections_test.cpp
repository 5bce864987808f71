#include "braid/comm/rejections.h"

#include <gtest/gtest.h>

#include <vector>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

TEST(Rejections, ReportsGrowWithTheLogarithmOfTheCount) {
  std::vector<std::string> lines;
  Rejections rejections([&](const std::string& line) { lines.push_back(line); });
  for (int i = 0; i < 1000; ++i) rejections.add("10.0.0.9", "why");
  rejections.add("10.0.0.8", "why");
  EXPECT_EQ(lines,
            (std::vector<std::string>{"rejected a connection from 10.0.0.9: why",
                                      "rejected a connection from 10.0.0.9: why (connection 10 of these)",
                                      "rejected a connection from 10.0.0.9: why (connection 100 of these)",
                                      "rejected a connection from 10.0.0.9: why (connection 1000 of these)",
                                      "rejected a connection from 10.0.0.8: why"}));
  EXPECT_EQ(rejections.addresses(), "10.0.0.8, 10.0.0.9");
}

TEST(Rejections, ManyAddressesShareOneCount) {
  std::vector<std::string> lines;
  Rejections rejections([&](const std::string& line) { lines.push_back(line); });
  for (int i = 0; i < 10'000; ++i) rejections.add(cat("address ", i), "why");
  // 9936 of them share a count: its 1st, 10th, 100th and 1000th.
  ASSERT_EQ(lines.size(), Rejections::kMostAddresses + 4);
  EXPECT_EQ(lines.back(), "rejected a connection from further addresses: why (connection 1000 of these)");
}

}  // namespace
}  // namespace braid::comm
