#include "braid/data/index/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "braid/base/error.h"
#include "braid/data/test_hash.h"

namespace braid::data {
namespace {

TEST(Split, ReadsOneToThreeNumbers) {
  EXPECT_EQ(parse_split("1"), (SplitWeights{1, 0, 0}));
  EXPECT_EQ(parse_split("3,1"), (SplitWeights{0.75, 0.25, 0}));
  EXPECT_EQ(parse_split("2/1/1"), (SplitWeights{0.5, 0.25, 0.25}));
  EXPECT_EQ(parse_split(" 0.5, 0.25 ,0.25"), (SplitWeights{0.5, 0.25, 0.25}));
  EXPECT_EQ(parse_split("0,1,0"), (SplitWeights{0, 1, 0}));
}

TEST(Split, RejectsOtherText) {
  for (const std::string text : {"", ",", "1,2,3,4", "0,0,0", "-1,2", "a", "1,b", "1,2/3", "nan", "inf,1",
                                 "949 50 1", "1e308,1e308"}) {
    try {
      parse_split(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("1 to 3 numbers for train, valid and test")) << text;
    }
  }
}

// Boundaries for every N from 0 to 5000, computed with Python's round() and numpy's normalisation.
TEST(Split, BoundariesEqualMegatronCores) {
  const std::vector<std::pair<std::string, uint64_t>> golden = {{"949,50,1", 5242832193784025938ull},
                                                                {"969,30,1", 9717841669355468163ull},
                                                                {"1,1,1", 13082474231512751885ull},
                                                                {"98,2", 10983067661087186948ull},
                                                                {"0.9,0.05,0.05", 14233558180371862844ull}};
  for (const auto& [text, expected] : golden) {
    std::vector<int64_t> borders;
    for (int64_t n = 0; n <= 5000; ++n) {
      const auto ranges = split_ranges(parse_split(text), n);
      borders.insert(borders.end(), {ranges[0].begin, ranges[0].end, ranges[1].end, ranges[2].end});
      ASSERT_EQ(ranges[1].begin, ranges[0].end);
      ASSERT_EQ(ranges[2].begin, ranges[1].end);
      ASSERT_EQ(ranges[2].end, n) << "no sequence is lost";
    }
    EXPECT_EQ(hash_of(borders), expected) << text;
  }
}

TEST(Split, SmallFilesLoseTheirLastParts) {
  const SplitWeights weights = parse_split("949,50,1");
  EXPECT_EQ(split_ranges(weights, 100)[1], (SequenceRange{95, 100}));
  EXPECT_EQ(split_ranges(weights, 100)[2].size(), 0);
  EXPECT_EQ(split_ranges(weights, 1000)[2], (SequenceRange{999, 1000}));
  EXPECT_EQ(split_ranges(weights, 500)[2].size(), 0);
  EXPECT_EQ(split_ranges(weights, 501)[2].size(), 1);
}

}  // namespace
}  // namespace braid::data
