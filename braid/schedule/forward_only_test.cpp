#include "braid/schedule/forward_only.h"

#include <gtest/gtest.h>

#include <map>

namespace braid::schedule {
namespace {

TEST(ForwardOnly, GoldenOrderOfThreeRanks) {
  EXPECT_EQ(to_string(forward_only({.ranks = 3, .microbatches = 2}).ranks[1]),
            "RECV_F0 F0 SEND_F0 RECV_F1 F1 SEND_F1 WAIT_SEND_F0 WAIT_SEND_F1");
}

TEST(ForwardOnly, EveryForwardOnceAndEverySendWaitedForAfterIt) {
  for (int32_t p = 1; p <= 6; ++p) {
    for (int32_t m = 1; m <= 12; ++m) {
      const Schedule schedule = forward_only({.ranks = p, .microbatches = m});
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
