#include "braid/data/index/numpy_random.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "braid/base/error.h"
#include "braid/data/test_hash.h"

namespace braid::data {
namespace {

// All expected values are from numpy 2.4.6.

template <typename T>
std::vector<T> shuffled_range(NumpyRandom& random, size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(std::span<T>(values));
  return values;
}

TEST(NumpyRandom, ShufflesAsNumpyDoes) {
  NumpyRandom random(1234);
  EXPECT_EQ(shuffled_range<int32_t>(random, 10), (std::vector<int32_t>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
  EXPECT_EQ(shuffled_range<int64_t>(random, 7), (std::vector<int64_t>{6, 4, 0, 5, 3, 2, 1}))
      << "the stream continues";
}

TEST(NumpyRandom, ShufflesLongRangesAsNumpyDoes) {
  NumpyRandom zero(0);
  EXPECT_EQ(hash_of(shuffled_range<uint32_t>(zero, 1000)), 13412678071142754909ull);
  NumpyRandom largest((int64_t{1} << 32) - 1);
  const auto values = shuffled_range<int64_t>(largest, 100000);
  EXPECT_EQ(hash_of(values), 3305566497740320517ull);
  EXPECT_EQ(std::vector<int64_t>(values.begin(), values.begin() + 5),
            (std::vector<int64_t>{85117, 19600, 4648, 56853, 35772}));
}

TEST(NumpyRandom, DrawsWordsAsNumpyDoes) {
  NumpyRandom random(42);
  for (const uint32_t expected : {1608637542u, 3421126067u, 4083286876u}) EXPECT_EQ(random.next(), expected);
}

// RandomState(5).randint(0, 2**40 + 1, dtype=int64), which draws like a shuffle of that many elements.
TEST(NumpyRandom, DrawsBeyond32BitsAsNumpyDoes) {
  NumpyRandom random(5);
  for (const uint64_t expected : {34745516772u, 993841416126u, 680694927056u, 34320314572u}) {
    EXPECT_EQ(random.up_to(uint64_t{1} << 40), expected);
  }
}

TEST(NumpyRandom, EmptyAndSingleRangesDrawNothing) {
  NumpyRandom random(42);
  shuffled_range<int32_t>(random, 0);
  shuffled_range<int32_t>(random, 1);
  EXPECT_EQ(random.up_to(0), 0u);
  EXPECT_EQ(random.next(), 1608637542u);
}

TEST(NumpyRandom, RejectsSeedsThatNumpyRejects) {
  EXPECT_THROW(NumpyRandom(-1), ConfigError);
  EXPECT_THROW(NumpyRandom(int64_t{1} << 32), ConfigError);
}

}  // namespace
}  // namespace braid::data
