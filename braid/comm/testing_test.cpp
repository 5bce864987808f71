#include "braid/comm/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

TEST(RunRanks, GivesEveryRankItsPlaceAndOneStore) {
  std::array<World, 3> worlds;
  run_ranks(3, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    worlds[static_cast<size_t>(world.rank)] = world;
    store->set(cat("rank", world.rank), "here");
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(store->get_to_str(cat("rank", rank)), "here");
    const Group group = group_of_all(world, "pp");
    EXPECT_EQ(group.rank(), world.rank);
    EXPECT_EQ(member_name(group, 2), "rank 2 (pp 2)");
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(worlds[static_cast<size_t>(rank)].rank, rank);
    EXPECT_EQ(worlds[static_cast<size_t>(rank)].world_size, 3);
  }
}

TEST(RunRanks, AFailureEndsThoseWhoWaitAndIsToldWithItsRank) {
  const RankBody body = [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    require<ShapeError>(world.rank != 1, "no such shape");
    store->wait({"never set"}, std::chrono::seconds(60));
  };
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_ranks(3, body);
    FAIL() << "no exception";
  } catch (const RankFailure& failure) {
    EXPECT_EQ(failure.rank, 1);
    EXPECT_STREQ(failure.what(), "rank 1: no such shape");
  }
  const auto messages = run_failing_ranks(3, body);
  EXPECT_EQ(messages[1], "no such shape");
  EXPECT_EQ(messages[0], "another rank of the test has failed");
  EXPECT_EQ(messages[2], "another rank of the test has failed");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace braid::comm
