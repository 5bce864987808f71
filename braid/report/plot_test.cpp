#include "braid/report/plot.h"

#include <gtest/gtest.h>

#include <limits>

#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

TEST(AxisTicks, RoundStepsUpToTheEnd) {
  EXPECT_EQ(axis_ticks(33, 10), (std::vector<double>{0, 5, 10, 15, 20, 25, 30}));
  EXPECT_EQ(axis_ticks(10, 10).size(), 11u);
  EXPECT_EQ(axis_ticks(10, 9), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks(0, 10), std::vector<double>{0});
  EXPECT_EQ(axis_ticks(std::numeric_limits<double>::quiet_NaN(), 10), std::vector<double>{0});
  for (double end = 1e-7; end < 1e7; end *= 1.37) {
    for (const int64_t most : {1, 4, 13}) {
      const std::vector<double> ticks = axis_ticks(end, most);
      EXPECT_LE(static_cast<int64_t>(ticks.size()), most + 1) << end;
      EXPECT_LE(ticks.back(), end * (1 + 1e-6));
    }
  }
}

}  // namespace
}  // namespace braid::report
