#include "braid/mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "braid/base/error.h"

namespace braid::mesh {
namespace {

template <typename Function>
std::string rejection(Function&& function) {
  try {
    function();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

// Every property below must hold for every small mesh.
class Mesh : public testing::TestWithParam<std::tuple<int32_t, int32_t, int32_t, int32_t>> {
 protected:
  MeshShape shape() const {
    const auto [mp, sharding, pp, dp] = GetParam();
    return {.mp = mp, .sharding = sharding, .pp = pp, .dp = dp};
  }
};

TEST_P(Mesh, RanksAndCoordinatesAreOneToOneAndCountMpFirst) {
  int32_t rank = 0;
  for (int32_t dp = 0; dp < shape().dp; ++dp) {
    for (int32_t pp = 0; pp < shape().pp; ++pp) {
      for (int32_t sharding = 0; sharding < shape().sharding; ++sharding) {
        for (int32_t mp = 0; mp < shape().mp; ++mp, ++rank) {
          const Coordinates here = {.mp = mp, .sharding = sharding, .pp = pp, .dp = dp};
          ASSERT_EQ(coordinates_of(shape(), rank), here);
          ASSERT_EQ(rank_of(shape(), here), rank);
        }
      }
    }
  }
  EXPECT_EQ(shape().world_size(), rank);
}

TEST_P(Mesh, GroupsOfAnAxisPartitionTheRanksAndVaryOnThatAxisOnly) {
  const auto world_size = static_cast<int32_t>(shape().world_size());
  for (const Axis axis : kAxes) {
    for (int32_t rank = 0; rank < world_size; ++rank) {
      const std::vector<int32_t> group = group_of(shape(), rank, axis);
      ASSERT_EQ(std::ssize(group), degree(shape(), axis));
      ASSERT_EQ(std::count(group.begin(), group.end(), rank), 1);
      for (int32_t i = 0; i < degree(shape(), axis); ++i) {
        const int32_t other = group[static_cast<size_t>(i)];
        ASSERT_EQ(group_of(shape(), other, axis), group) << "all members agree on the group";
        ASSERT_EQ(coordinate(coordinates_of(shape(), other), axis), i) << "members are in axis order";
        for (const Axis another : kAxes) {
          if (another == axis) continue;
          ASSERT_EQ(coordinate(coordinates_of(shape(), other), another),
                    coordinate(coordinates_of(shape(), rank), another));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Mesh,
                         testing::Combine(testing::Range(1, 4), testing::Range(1, 4), testing::Range(1, 4),
                                          testing::Range(1, 4)));

TEST(MeshGolden, EightRanksOfMp2Pp2Dp2) {
  const MeshShape shape = {.mp = 2, .pp = 2, .dp = 2};
  EXPECT_EQ(group_of(shape, 5, Axis::kMp), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(group_of(shape, 5, Axis::kSharding), (std::vector<int32_t>{5}));
  EXPECT_EQ(group_of(shape, 5, Axis::kPp), (std::vector<int32_t>{5, 7}));
  EXPECT_EQ(group_of(shape, 5, Axis::kDp), (std::vector<int32_t>{1, 5}));
  EXPECT_EQ(to_string(coordinates_of(shape, 5)), "mp 1, sharding 0, pp 0, dp 1");
}

TEST(MeshRejections, NameTheAxisTheRuleAndTheValue) {
  EXPECT_EQ(rejection([] { validate({.mp = 0}); }), "the mp degree must be >= 1, got 0");
  EXPECT_EQ(rejection([] { validate({.dp = -2}); }), "the dp degree must be >= 1, got -2");
  EXPECT_EQ(
      rejection([] { validate({.mp = 2, .sharding = 1, .pp = 4, .dp = 1}, 4); }),
      "mp 2 x sharding 1 x pp 4 x dp 1 needs 8 ranks, but 4 run: change a degree or the number of ranks");
  EXPECT_EQ(rejection([] { coordinates_of({.pp = 2}, 2); }),
            "rank must be in [0, 2) for mp 1 x sharding 1 x pp 2 x dp 1, got 2");
  EXPECT_EQ(rejection([] { rank_of({.pp = 2}, {.pp = 2}); }), "the pp coordinate must be in [0, 2), got 2");
  EXPECT_NO_THROW(validate({.mp = 2, .pp = 4}, 8));
}

TEST(MeshRejections, DegreesWhoseProductOverflowsAreRejected) {
  EXPECT_EQ(rejection([] { validate({.mp = 65536, .sharding = 65536, .pp = 65536, .dp = 65536}); }),
            "mp 65536 x sharding 65536 x pp 65536 x dp 65536 has more than the maximum of 2147483647 ranks: "
            "lower a degree");
}

}  // namespace
}  // namespace braid::mesh
