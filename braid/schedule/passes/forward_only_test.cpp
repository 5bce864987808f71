#include "braid/schedule/passes/forward_only.h"

#include <gtest/gtest.h>

#include <map>

namespace braid::schedule {
namespace {

Schedule placed(const PipelineShape& shape, Placement placement = Placement::kLooped) {
  return {.shape = shape,
          .placement = placement,
          .ranks = std::vector<std::vector<Action>>(static_cast<size_t>(shape.ranks))};
}

TEST(ForwardOnly, GoldenOrderOfThreeRanks) {
  EXPECT_EQ(to_string(forward_only(placed({.ranks = 3}), 2).ranks[1]),
            "RECV_F0 F0 SEND_F0 RECV_F1 F1 SEND_F1 WAIT_SEND_F0 WAIT_SEND_F1");
}

TEST(ForwardOnly, TakesRoundsThroughTheChunks) {
  const PipelineShape shape = {.ranks = 2, .chunks_per_rank = 2};
  EXPECT_EQ(
      to_string(forward_only(placed(shape, Placement::kV), 3).ranks[1]),
      "RECV_F0 F0 RECV_F1 F1 F0c1 SEND_F0c1 F1c1 SEND_F1c1 RECV_F2 F2 WAIT_SEND_F0c1 WAIT_SEND_F1c1 F2c1 "
      "SEND_F2c1 WAIT_SEND_F2c1");
}

TEST(ForwardOnly, EveryForwardOfEveryStageWhereverItIs) {
  for (const Placement placement : {Placement::kLooped, Placement::kV}) {
    for (int32_t p = 1; p <= 5; ++p) {
      for (int32_t chunks = 1; chunks <= 3; ++chunks) {
        for (int32_t m = 1; m <= 11; ++m) {
          const Schedule schedule =
              forward_only(placed({.ranks = p, .chunks_per_rank = chunks}, placement), m);
          for (const std::vector<Action>& list : schedule.ranks) {
            std::map<std::pair<Op, int32_t>, int32_t> next;
            for (const Action& action : list) {
              ASSERT_EQ(action.microbatch, (next[{action.op, action.chunk}]++)) << to_string(action);
            }
            for (int32_t chunk = 0; chunk < chunks; ++chunk) {
              EXPECT_EQ((next[{Op::kForward, chunk}]), m);
              EXPECT_EQ((next[{Op::kSendForward, chunk}]), (next[{Op::kWaitSendForward, chunk}]));
            }
          }
        }
      }
    }
  }
}

TEST(ForwardOnly, EveryForwardOnceAndEverySendWaitedForAfterIt) {
  for (int32_t p = 1; p <= 6; ++p) {
    for (int32_t m = 1; m <= 12; ++m) {
      const Schedule schedule = forward_only(placed({.ranks = p}), m);
      for (int32_t rank = 0; rank < p; ++rank) {
        std::map<Op, int32_t> next;
        for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
          ASSERT_EQ(action.microbatch, next[action.op]++) << to_string(action) << " of rank " << rank;
          if (action.op == Op::kSendForward) {
            ASSERT_LE(next[Op::kSendForward], next[Op::kForward]);
          }
          if (action.op == Op::kWaitSendForward) {
            ASSERT_LE(next[Op::kWaitSendForward], next[Op::kSendForward]);
          }
        }
        EXPECT_EQ(next[Op::kForward], m);
        EXPECT_EQ(next[Op::kRecvForward], rank == 0 ? 0 : m);
        EXPECT_EQ(next[Op::kSendForward], rank == p - 1 ? 0 : m);
        EXPECT_EQ(next[Op::kWaitSendForward], rank == p - 1 ? 0 : m);
      }
    }
  }
}

}  // namespace
}  // namespace braid::schedule
