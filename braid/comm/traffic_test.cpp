#include "braid/comm/traffic.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace braid::comm {
namespace {

using Calls = Traffic<std::string>;

TEST(Traffic, CountsByKind) {
  Calls calls;
  calls.add("sum", 100);
  calls.add("gather", 7);
  calls.add("sum", 20);
  EXPECT_EQ(calls, (Calls{{{"gather", {1, 7}}, {"sum", {2, 120}}}}));
  EXPECT_NE(calls, (Calls{{{"gather", {1, 7}}, {"sum", {2, 121}}}}));
  std::ostringstream text;
  text << calls;
  EXPECT_EQ(text.str(), "gather: 1 x, 7 bytes; sum: 2 x, 120 bytes");
}

TEST(Traffic, ADifferenceHoldsOnlyWhatCameBetween) {
  Calls calls;
  calls.add("sum", 100);
  calls.add("gather", 7);
  const Calls before = calls;
  calls.add("sum", 20);
  calls.add("barrier", 0);
  EXPECT_EQ(calls - before, (Calls{{{"barrier", {1, 0}}, {"sum", {1, 20}}}}));
  EXPECT_EQ(calls - calls, Calls{});
}

}  // namespace
}  // namespace braid::comm
