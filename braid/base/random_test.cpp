#include "braid/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace braid {
namespace {

// Known answers from the Random123 distribution (kat_vectors), philox4x32 with 10 rounds.
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox(0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(SeedFor, DependsOnSeedAndName) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const char* name : {"a", "b", "ab", "ba", ""}) seen.insert(seed_for(seed, name));
  }
  EXPECT_EQ(seen.size(), 250u);
}

TEST(NormalPair, HasTheMomentsOfTheNormalDistribution) {
  constexpr int kPairs = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kPairs; ++i) {
    for (const double x : normal_pair(7, static_cast<uint64_t>(i))) {
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
  }
  const double n = 2.0 * kPairs;
  // Five standard errors: deviations of the mean 1, of x^2 sqrt(2), of x^4 sqrt(96), each over sqrt(n).
  EXPECT_LT(std::abs(sum / n), 5 / std::sqrt(n));
  EXPECT_LT(std::abs(squares / n - 1), 5 * std::sqrt(2 / n));
  EXPECT_LT(std::abs(fourth / n - 3), 5 * std::sqrt(96 / n));
}

}  // namespace
}  // namespace braid
