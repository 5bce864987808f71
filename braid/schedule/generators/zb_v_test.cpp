#include "braid/schedule/generators/zb_v.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

TEST(ZbVByHandGolden, ThreeRanksFiveMicrobatches) {
  EXPECT_EQ(to_string(zb_v_by_hand({.ranks = 3, .chunks_per_rank = 2, .microbatches = 5})),
            "ZBVPP\n"
            "rank 0: F0 F1 F2 F3 F4 F0c1 I0c1 W0c1 F1c1 I1c1 W1c1 F2c1 I2c1 W2c1 I0 W0 F3c1 I3c1 W3c1 I1 W1 "
            "F4c1 I4c1 W4c1 I2 W2 I3 W3 I4 W4\n"
            "rank 1: F0 F1 F2 F0c1 F3 F1c1 I0c1 W0c1 F2c1 I1c1 W1c1 F4 I0 W0 F3c1 I2c1 W2c1 I1 W1 F4c1 I3c1 "
            "W3c1 I2 I4c1 I3 W2 I4 W3 W4c1 W4\n"
            "rank 2: F0 F0c1 F1 F1c1 F2 F2c1 I0c1 W0c1 F3 I0 W0 F3c1 I1c1 W1c1 F4 I1 W1 F4c1 I2c1 W2c1 I2 "
            "I3c1 I3 I4c1 I4 W2 W3c1 W4c1 W3 W4\n");
}

TEST(ZbVByHandGolden, MicrobatchesThatDoNotExistAreLeftOut) {
  EXPECT_EQ(to_string(zb_v_by_hand({.ranks = 3, .chunks_per_rank = 2, .microbatches = 1})),
            "ZBVPP\n"
            "rank 0: F0 F0c1 I0c1 W0c1 I0 W0\n"
            "rank 1: F0 F0c1 I0c1 W0c1 I0 W0\n"
            "rank 2: F0 F0c1 I0c1 W0c1 I0 W0\n");
}

TEST(ZbVByHand, HasNoBubbleFromTwoRanksLessOneMicrobatchesOn) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      SCOPED_TRACE(testing::Message() << "p " << ranks << " m " << microbatches);
      const Schedule schedule =
          zb_v_by_hand({.ranks = ranks, .chunks_per_rank = 2, .microbatches = microbatches});
      ASSERT_NO_THROW(lower(schedule, {}));
      const StageTimes half = {
          .forward = Seconds(0.5), .backward_input = Seconds(0.5), .backward_weight = Seconds(0.5)};
      ASSERT_EQ(simulate(schedule, {.stages = {half}}).longest_span.count(),
                3.0 * microbatches + std::max(0, 2 * ranks - 1 - microbatches));
      // The same on every rank.
      const std::vector<int32_t> peaks = check(schedule).peak_live_activations;
      ASSERT_LE(*std::max_element(peaks.begin(), peaks.end()), 2 * ranks);
      if (microbatches >= 2 * ranks - 1) {
        ASSERT_EQ(peaks, std::vector<int32_t>(peaks.size(), 2 * ranks));
      }
    }
  }
}

}  // namespace
}  // namespace braid::schedule
