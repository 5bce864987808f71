#include "braid/schedule/search/v_search.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

using Limits = std::vector<std::array<int32_t, 2>>;

Limits limits(int32_t ranks, int64_t memory_limit, StageMemory kept = {}) {
  return tapered_limits(v_problem({.ranks = ranks, .chunks_per_rank = 2, .microbatches = 20},
                                  {.memory = {.stages = {kept}}}, memory_limit));
}

TEST(TaperedLimits, LieOnALine) {
  EXPECT_EQ(limits(4, 8), (Limits{{7, 1}, {6, 2}, {5, 3}, {4, 4}}));
  EXPECT_EQ(limits(4, 6), (Limits{{5, 1}, {4, 2}, {4, 2}, {3, 3}}));
  EXPECT_EQ(limits(4, 5), (Limits{{4, 1}, {4, 1}, {3, 2}, {3, 2}}));
  EXPECT_EQ(limits(1, 8), (Limits{{7, 1}}));
}

TEST(TaperedLimits, AreForWhatAStageKeeps) {
  EXPECT_EQ(limits(2, 47, {.forward_to_backward = 10, .backward_to_weight = 4}), (Limits{{3, 1}, {2, 2}}));
  // At least one microbatch, at most all: 20 on both chunks.
  EXPECT_EQ(limits(2, 1), (Limits{{1, 1}, {1, 1}}));
  EXPECT_EQ(limits(2, 1000), (Limits{{39, 1}, {20, 20}}));
  EXPECT_EQ(limits(2, 0, {.forward_to_backward = 0, .backward_to_weight = 1}), (Limits{{39, 1}, {20, 20}}));
}

TEST(Shorter, TakesTheSecondOnlyIfItGains) {
  const PipelineShape shape = {.ranks = 2, .microbatches = 2};
  const auto schedule = [&](std::string name, std::string_view first_rank) {
    return Schedule{.name = std::move(name),
                    .shape = shape,
                    .ranks = {parse_actions(first_rank), parse_actions("F0 B0 F1 B1")}};
  };
  const Schedule early = schedule("early", "F0 F1 B0 B1");
  const Schedule late = schedule("late", "F0 B0 F1 B1");
  const Durations durations = {.communication = Seconds(0.25)};
  EXPECT_EQ(shorter(late, early, durations).name, "early");
  EXPECT_EQ(shorter(early, late, durations).name, "early");
  EXPECT_EQ(shorter(schedule("first", "F0 F1 B0 B1"), early, durations).name, "first");
}

}  // namespace
}  // namespace braid::schedule
