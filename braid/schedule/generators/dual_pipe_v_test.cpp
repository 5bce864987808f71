#include "braid/schedule/generators/dual_pipe_v.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

std::string rejection(const PipelineShape& shape) {
  try {
    dual_pipe_v(shape);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(DualPipeV, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for (int32_t p = 1; p <= 8; ++p) {
    for (int32_t m = 2 * p; m <= 24; ++m) {
      SCOPED_TRACE(testing::Message() << "p " << p << " m " << m);
      const Schedule schedule = dual_pipe_v({.ranks = p, .chunks_per_rank = 2, .microbatches = m});
      ASSERT_EQ(check(schedule).peak_live_activations,
                std::vector<int32_t>(static_cast<size_t>(p), 2 * p + 1));
      ASSERT_EQ(simulate(schedule, {}).longest_span, Seconds(2 * m * 3 + p - 1));
      ASSERT_EQ(simulate(lower(schedule, {}), {}).longest_span, Seconds(2 * m * 3 + p - 1));
    }
  }
}

TEST(DualPipeVGolden, TwoRanksFiveMicrobatches) {
  EXPECT_EQ(
      to_string(dual_pipe_v({.ranks = 2, .chunks_per_rank = 2, .microbatches = 5})),
      "DualPipeV\n"
      "rank 0: F0 F1 F2 F0c1 I0c1 W0c1 F1c1 F3 B1c1 F2c1 B0 F4 B2c1 F3c1 B1 B3c1 F4c1 B2 B4c1 I3 W3 I4 "
      "W4\n"
      "rank 1: F0 F0c1 F1 F1c1 F2 B0c1 F2c1 B0 F3 B1c1 F3c1 B1 F4 B2c1 F4c1 B2 B3c1 B3 I4c1 I4 W4c1 W4\n");
}

TEST(DualPipeVRejects, OtherNumbersOfChunksAndTooFewMicrobatches) {
  EXPECT_EQ(rejection({.ranks = 4, .chunks_per_rank = 1, .microbatches = 8}),
            "DualPipeV runs with 2 chunks per rank, got 1");
  EXPECT_EQ(rejection({.ranks = 4, .chunks_per_rank = 2, .microbatches = 7}),
            "DualPipeV on 4 ranks needs at least 8 microbatches, got 7");
  EXPECT_EQ(rejection({.ranks = 0}), "a pipeline needs at least 1 rank, got 0");
}

}  // namespace
}  // namespace braid::schedule
