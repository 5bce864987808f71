#include "braid/data/blend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "braid/base/error.h"

namespace braid::data {
namespace {

TEST(Blend, TakesTheDatasetFurthestBehind) {
  // Worked by hand: weights 3/4 and 1/4; before sample i the errors are weight * max(i, 1) - drawn.
  //   i=0: 0.75, 0.25 -> 0   i=1: -0.25, 0.25 -> 1   i=2: 0.5, -0.5 -> 0   i=3: 0.25, -0.25 -> 0   i=4: 0, 0
  //   -> 0 (a tie)
  const std::vector<double> weights = {0.75, 0.25};
  const Blend blend = build_blend(weights, 5);
  EXPECT_EQ(blend.dataset, (std::vector<uint16_t>{0, 1, 0, 0, 0}));
  EXPECT_EQ(blend.sample, (std::vector<int64_t>{0, 0, 1, 2, 3}));
  EXPECT_EQ(blend.drawn, (std::vector<int64_t>{4, 1}));
}

TEST(Blend, EqualWeightsTakeTurns) {
  const auto weights = normalized_weights(std::vector<double>{2, 2, 2, 2});
  const Blend blend = build_blend(weights, 12);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(blend.dataset[i], i % 4);
    EXPECT_EQ(blend.sample[i], static_cast<int64_t>(i / 4));
  }
}

TEST(Blend, SharesHoldAtEveryPointAndSamplesAreInOrder) {
  for (const auto& given :
       std::vector<std::vector<double>>{{1}, {1, 1}, {5, 3, 2}, {0.1, 100, 7, 7}, {1, 2, 3, 4, 5, 6}}) {
    const auto weights = normalized_weights(given);
    const Blend blend = build_blend(weights, 3000);
    std::vector<int64_t> drawn(weights.size());
    for (int64_t i = 0; i < blend.size(); ++i) {
      const size_t d = blend.dataset[static_cast<size_t>(i)];
      ASSERT_EQ(blend.sample[static_cast<size_t>(i)], drawn[d]++);
      for (size_t e = 0; e < weights.size(); ++e) {
        // Behind by less than one sample per dataset, ahead by no more than one.
        const double behind = weights[e] * static_cast<double>(i + 1) - static_cast<double>(drawn[e]);
        ASSERT_LE(behind, static_cast<double>(weights.size()) - 1 + 1e-9);
        ASSERT_GE(behind, -1 - 1e-9);
      }
    }
    EXPECT_EQ(blend.drawn, drawn);
    for (size_t e = 0; e < weights.size(); ++e) {
      EXPECT_LE(drawn[e], samples_for_weight(weights[e], 3000)) << "as many are prepared as are drawn";
    }
  }
}

TEST(Blend, SizesHaveHalfAPercentToSpare) {
  EXPECT_EQ(samples_for_weight(0.5, 1000), 503);
  EXPECT_EQ(samples_for_weight(1.0 / 3, 10), 4);
  EXPECT_EQ(samples_for_weight(1, 200), 201);
}

TEST(Blend, RefusesWeightsThatAreNone) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(normalized_weights(std::vector<double>{1, bad}), ConfigError);
  }
  EXPECT_THROW(build_blend(std::vector<double>(65536, 1.0 / 65536), 1), ConfigError);
}

}  // namespace
}  // namespace braid::data
