#include "braid/schedule/search/memory_limited.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "braid/base/error.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/published_numbers.h"
#include "braid/schedule/search/cost.h"

namespace braid::schedule {
namespace {

// The large pipelines are in memory_limited_slow_test.cpp.
TEST(MemoryLimited, NoMoreBubbleThanPublished) {
  for (const PublishedSetting& row : kPublishedSettings) {
    if (row.ranks > 8) continue;
    SCOPED_TRACE(testing::Message() << row.model << " m " << row.microbatches);
    const auto rate = [&](const Workload& workload) {
      const Schedule schedule =
          memory_limited({.ranks = row.ranks, .microbatches = row.microbatches}, workload);
      EXPECT_LE(cost_of(schedule, workload).peak_memory, workload.memory_limit);
      return std::round(simulate(schedule, workload.durations).bubble_rate * 1e4) / 1e4;
    };
    EXPECT_LE(rate(workload_of(row, row.ranks)), std::stod(row.bubble_zb_1p));
    EXPECT_LE(rate(workload_of(row, 2 * row.ranks)), std::stod(row.bubble_zb_2p));
    Workload as_much_between_i_and_w = workload_of(row, row.ranks);
    as_much_between_i_and_w.memory = {};
    as_much_between_i_and_w.memory_limit = row.ranks;
    EXPECT_LE(rate(as_much_between_i_and_w), std::stod(row.bubble_zb_1p));
  }
}

// Those of ZB-H1 and ZB-H2: a bubble of p-1, and none at all.
TEST(MemoryLimited, EqualTimesGiveTheHandMadeSchedules) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (int32_t microbatches = 2 * ranks - 1; microbatches <= 24; microbatches += 5) {
      SCOPED_TRACE(testing::Message() << "p " << ranks << " m " << microbatches);
      const PipelineShape shape = {.ranks = ranks, .microbatches = microbatches};
      Workload workload;
      const auto bubble = [&](int64_t limit) {
        workload.memory_limit = limit;
        return simulate(memory_limited(shape, workload), workload.durations).longest_span.count() -
               3.0 * microbatches;
      };
      ASSERT_LE(bubble(ranks), ranks - 1.0);
      ASSERT_EQ(bubble(2 * ranks - 1), 0.0);
    }
  }
}

Workload unequal(int32_t ranks) {
  Workload workload = {.durations = {.stages = {}, .communication = Seconds(0.25)}, .memory = {.stages = {}}};
  for (int32_t stage = 0; stage < ranks; ++stage) {
    workload.durations.stages.push_back({.forward = Seconds(1.0 + 0.25 * (stage % 3)),
                                         .backward_input = Seconds(1.5 - 0.5 * (stage % 2)),
                                         .backward_weight = Seconds(0.5 + 0.25 * (stage % 4))});
    workload.memory.stages.push_back(
        {.forward_to_backward = 5 + stage % 2, .backward_to_weight = 2 + 3 * (stage % 3)});
  }
  return workload;
}

TEST(MemoryLimited, IsSoundAndGainsByMemory) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (const int32_t microbatches : {1, 2, 5, 13, 24}) {
      for (Workload workload : {Workload{}, unequal(ranks)}) {
        SCOPED_TRACE(testing::Message() << "p " << ranks << " m " << microbatches << " stages "
                                        << workload.durations.stages.size());
        const PipelineShape shape = {.ranks = ranks, .microbatches = microbatches};
        int64_t span = std::numeric_limits<int64_t>::max();
        for (const int64_t limit : limits_to_search(shape, workload)) {
          workload.memory_limit = limit;
          const Schedule schedule = memory_limited(shape, workload);
          ASSERT_NO_THROW(lower(schedule, {}));
          const Cost cost = cost_of(schedule, workload);
          ASSERT_LE(cost.peak_memory, limit);
          ASSERT_LE(cost.longest_span, span) << "with a limit of " << limit;
          span = cost.longest_span;
        }
      }
    }
  }
}

TEST(MemoryLimited, TheLeastLimitWillDo) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    Workload workload = unequal(ranks);
    const PipelineShape shape = {.ranks = ranks, .microbatches = 6};
    workload.memory_limit = ranks == 1 ? 5 : 6;  // M_B; more than that is kept only between I and W
    ASSERT_EQ(least_of_memory_limited(shape, workload.memory), workload.memory_limit);
    ASSERT_LE(cost_of(memory_limited(shape, workload), workload).peak_memory, workload.memory_limit);
  }
}

TEST(MemoryLimited, LimitsEndWhereMemoryStopsPaying) {
  const PipelineShape shape = {.ranks = 4, .microbatches = 32};
  // A round trip of 3 stages has room for 6 forwards, after one and before p-1 more.
  EXPECT_EQ(limits_to_search(shape, {}), (std::vector<int64_t>{2, 4, 6, 8, 10}));
  EXPECT_EQ(limits_to_search(shape, {.memory_limit = 100}), (std::vector<int64_t>{2, 4, 6, 8, 10}));
  EXPECT_EQ(limits_to_search(shape, {.memory_limit = 5}), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(limits_to_search({.ranks = 4, .microbatches = 3}, {}), (std::vector<int64_t>{1, 2, 3}));
}

TEST(MemoryLimited, Golden) {
  EXPECT_EQ(to_string(memory_limited({.ranks = 3, .microbatches = 5}, {.memory_limit = 5})),
            "memory-limited\n"
            "rank 0: F0 F1 F2 F3 F4 B0 B1 B2 B3 B4\n"
            "rank 1: F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4\n"
            "rank 2: F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4\n");
}

TEST(MemoryLimitedRejects, WhatHasNoRoomAndWhatDoesNotFit) {
  const auto rejection = [](const PipelineShape& shape, const Workload& workload) -> std::string {
    try {
      memory_limited(shape, workload);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "was accepted";
  };
  const PipelineShape shape = {.ranks = 2, .microbatches = 4};
  EXPECT_EQ(rejection(shape, {.memory = {{{.forward_to_backward = 7}}}, .memory_limit = 6}),
            "a limit of 6 has no room for one microbatch: the least is 7");
  EXPECT_EQ(rejection({.ranks = 2, .chunks_per_rank = 2}, {}),
            "the memory-limited search runs with 1 chunk per rank, got 2");
  EXPECT_EQ(rejection(shape, {.durations = {.stages = std::vector<StageTimes>(3)}}),
            "durations are needed for 1 stage (they hold for all) or 2 stages, got 3");
  EXPECT_EQ(rejection(shape, {.memory = {.stages = std::vector<StageMemory>(3)}}),
            "memory is needed for 1 stage (it holds for all) or 2 stages, got 3");
}

}  // namespace
}  // namespace braid::schedule
