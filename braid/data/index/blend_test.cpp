#include "braid/data/index/blend.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "braid/base/error.h"
#include "braid/data/test_hash.h"

namespace braid::data {
namespace {

TEST(Blend, DrawsFromTheDatasetFurthestBehind) {
  // Computed by hand: weights 3/4 and 1/4; before sample i the errors are weight * max(i, 1) - drawn.
  //   i=0: 0.75, 0.25 -> 0   i=1: -0.25, 0.25 -> 1   i=2: 0.5, -0.5 -> 0   i=3: 0.25, -0.25 -> 0   i=4: 0, 0
  //   -> 0 (a tie)
  const std::vector<double> weights = {0.75, 0.25};
  const Blend blend = build_blend(weights, 5);
  EXPECT_EQ(blend.dataset, (std::vector<uint16_t>{0, 1, 0, 0, 0}));
  EXPECT_EQ(blend.sample, (std::vector<int64_t>{0, 0, 1, 2, 3}));
  EXPECT_EQ(blend.drawn, (std::vector<int64_t>{4, 1}));
}

TEST(Blend, EqualWeightsAlternate) {
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
        // Behind by less than one sample per dataset, ahead by at most one.
        const double behind = weights[e] * static_cast<double>(i + 1) - static_cast<double>(drawn[e]);
        ASSERT_LE(behind, static_cast<double>(weights.size()) - 1 + 1e-9);
        ASSERT_GE(behind, -1 - 1e-9);
      }
    }
    EXPECT_EQ(blend.drawn, drawn);
    for (size_t e = 0; e < weights.size(); ++e) {
      EXPECT_LE(drawn[e], samples_for_weight(weights[e], 3000)) << "enough samples are prepared";
    }
  }
}

TEST(Blend, SizesHaveAMarginOfHalfAPercent) {
  EXPECT_EQ(samples_for_weight(0.5, 1000), 503);
  EXPECT_EQ(samples_for_weight(1.0 / 3, 10), 5);
  EXPECT_EQ(samples_for_weight(1, 200), 201);
}

// Expected values from numpy and megatron-core 0.16.1: weights normalised by numpy.sum, then
// build_blending_indices.
TEST(Blend, OrderEqualsMegatrons) {
  struct Golden {
    int count;
    uint64_t weights_hash, dataset_hash, sample_hash;
  };
  for (const Golden& golden :
       std::vector<Golden>{{2, 7492898185427910179ull, 16279480614148939332ull, 3476578013671571515ull},
                           {9, 17909029716943327849ull, 14329627028012885134ull, 5287498563473052344ull},
                           {40, 17295749112065187453ull, 4884711777489196898ull, 6201733433277264955ull},
                           {300, 808678759723687052ull, 3624370567985588647ull, 16203627720314857638ull}}) {
    std::vector<double> given;
    for (int i = 0; i < golden.count; ++i) given.push_back((i * 7919 % 101 + 1) / 10.0);
    const auto weights = normalized_weights(given);
    std::vector<uint64_t> bits;
    for (const double weight : weights) bits.push_back(std::bit_cast<uint64_t>(weight));
    EXPECT_EQ(hash_of(bits), golden.weights_hash) << golden.count;
    const Blend blend = build_blend(weights, 2000);
    EXPECT_EQ(hash_of(blend.dataset), golden.dataset_hash) << golden.count;
    EXPECT_EQ(hash_of(blend.sample), golden.sample_hash) << golden.count;
  }
}

TEST(Blend, RejectsInvalidWeights) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(normalized_weights(std::vector<double>{1, bad}), ConfigError);
  }
  EXPECT_THROW(build_blend(std::vector<double>(65536, 1.0 / 65536), 1), ConfigError);
}

}  // namespace
}  // namespace braid::data
