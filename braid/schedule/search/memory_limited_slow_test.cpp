#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

#include "braid/schedule/check.h"
#include "braid/schedule/generators/auto_schedule.h"
#include "braid/schedule/published_numbers.h"
#include "braid/schedule/search/cost.h"
#include "braid/schedule/search/memory_limited.h"

namespace braid::schedule {
namespace {

TEST(MemoryLimitedSlow, NoMoreBubbleThanPublished) {
  for (const PublishedSetting& row : kPublishedSettings) {
    if (row.ranks <= 8) continue;  // those are in memory_limited_test.cpp
    SCOPED_TRACE(testing::Message() << row.model << " m " << row.microbatches);
    const auto rate = [&](const Workload& workload) {
      const Schedule schedule =
          memory_limited({.ranks = row.ranks, .microbatches = row.microbatches}, workload);
      check(schedule);
      EXPECT_LE(cost_of(schedule, workload).peak_memory, workload.memory_limit);
      return std::round(simulate(schedule, workload.durations).bubble_rate * 1e4) / 1e4;
    };
    EXPECT_LE(rate(workload_of(row, row.ranks)), std::stod(row.bubble_zb_1p));
    EXPECT_LE(rate(workload_of(row, 2 * row.ranks)), std::stod(row.bubble_zb_2p));
  }
}

// The largest of the published settings is planned before a run starts, on every rank. The limit allows for
// slow machines.
TEST(AutoScheduleSlow, ThirtyTwoRanksTakeSeconds) {
  const PublishedSetting& row = *std::rbegin(kPublishedSettings);
  const auto begin = std::chrono::steady_clock::now();
  const Schedule schedule =
      auto_schedule({.ranks = row.ranks, .microbatches = row.microbatches}, workload_of(row, 2 * row.ranks));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(check(schedule).messages, 2 * (row.ranks - 1) * row.microbatches);
  EXPECT_LT(elapsed.count(), 60.0);
  RecordProperty("seconds", std::to_string(elapsed.count()));
}

}  // namespace
}  // namespace braid::schedule
