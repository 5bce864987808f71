#include "braid/schedule/generators/auto_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "braid/base/error.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/search/cost.h"
#include "braid/schedule/search/memory_limited.h"

namespace braid::schedule {
namespace {

Workload unequal(const PipelineShape& shape) {
  Workload workload = {.durations = {.stages = {}, .communication = Seconds(0.25)}, .memory = {.stages = {}}};
  for (int32_t stage = 0; stage < shape.stages(); ++stage) {
    workload.durations.stages.push_back({.forward = Seconds(1.0 + 0.25 * (stage % 3)),
                                         .backward_input = Seconds(1.5 - 0.5 * (stage % 2)),
                                         .backward_weight = Seconds(0.5 + 0.25 * (stage % 4))});
    workload.memory.stages.push_back({.forward_to_backward = 4 + stage % 3, .backward_to_weight = 3});
  }
  return workload;
}

std::string rejection(const PipelineShape& shape, const Workload& workload) {
  try {
    auto_schedule(shape, workload);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

// The least span of all other modes that run with `shape` within the limit; nothing if there is none.
std::optional<int64_t> least_span_of_others(const PipelineShape& shape, const Workload& workload) {
  std::optional<int64_t> least;
  for (const std::string& mode : schedule_modes()) {
    if (mode == "auto") continue;
    try {
      const int64_t span = cost_of(generate(mode, shape, workload), workload).longest_span;
      least = std::min(span, least.value_or(span));
    } catch (const ConfigError&) {
      continue;
    }
  }
  return least;
}

void expect_best(const PipelineShape& shape, const Workload& workload) {
  const std::optional<int64_t> others = least_span_of_others(shape, workload);
  Schedule schedule;
  try {
    schedule = generate("auto", shape, workload);
  } catch (const ConfigError& error) {
    ASSERT_FALSE(others.has_value()) << error.what();
    return;
  }
  ASSERT_NO_THROW(lower(schedule, {}));
  const Cost cost = cost_of(schedule, workload);
  ASSERT_LE(cost.longest_span, others.value_or(cost.longest_span));
  ASSERT_LE(cost.peak_memory, workload.memory_limit.value_or(cost.peak_memory));
  ASSERT_EQ(auto_schedule(shape, workload), schedule) << "other the second time";
}

TEST(AutoSchedule, IsSoundAndNeverWorseThanAnotherMode) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (const int32_t chunks : {1, 2}) {
      for (const int32_t microbatches : {1, 3, 8, 24}) {
        const PipelineShape shape = {.ranks = ranks, .chunks_per_rank = chunks, .microbatches = microbatches};
        for (Workload workload : {Workload{}, unequal(shape)}) {
          const int64_t most = limits_to_search(shape, workload).back();
          for (const std::optional<int64_t> limit : {std::optional<int64_t>(), std::optional(most / 3)}) {
            workload.memory_limit = limit;
            SCOPED_TRACE(testing::Message() << "p " << ranks << " v " << chunks << " m " << microbatches
                                            << " limit " << limit.value_or(-1));
            ASSERT_NO_FATAL_FAILURE(expect_best(shape, workload));
          }
        }
      }
    }
  }
}

TEST(AutoSchedule, GainsByMemory) {
  for (const int32_t ranks : {2, 4, 7}) {
    const PipelineShape shape = {.ranks = ranks, .microbatches = 12};
    for (Workload workload : {Workload{}, unequal(shape)}) {
      SCOPED_TRACE(testing::Message() << "p " << ranks << " stages " << workload.durations.stages.size());
      int64_t span = std::numeric_limits<int64_t>::max();
      for (const int64_t limit : limits_to_search(shape, workload)) {
        workload.memory_limit = limit;
        const int64_t now = cost_of(auto_schedule(shape, workload), workload).longest_span;
        ASSERT_LE(now, span) << "with a limit of " << limit;
        span = now;
      }
    }
  }
}

TEST(AutoSchedule, NameTellsWhatItIsMadeOf) {
  EXPECT_EQ(auto_schedule({.ranks = 1, .microbatches = 3}, {}).name, "auto (1F1B)");
  EXPECT_EQ(auto_schedule({.ranks = 4, .microbatches = 8}, {}).name, "auto (ZBH2)");
  const Workload uneven = {.durations = {.stages = {{Seconds(1.0), Seconds(1.25), Seconds(0.5)}}}};
  EXPECT_EQ(auto_schedule({.ranks = 4, .microbatches = 8}, uneven).name, "auto (1F1B, weights placed anew)");
  const Workload with_messages = {
      .durations = {.stages = {{Seconds(1.0), Seconds(1.0), Seconds(0.8)}}, .communication = Seconds(0.02)}};
  EXPECT_EQ(auto_schedule({.ranks = 8, .microbatches = 24}, with_messages).name, "auto (memory-limited)");
}

TEST(AutoScheduleRejects, WhatNothingFits) {
  const Workload tight = {.memory = {{{.forward_to_backward = 7, .backward_to_weight = 9}}},
                          .memory_limit = 6};
  EXPECT_EQ(rejection({.ranks = 2, .microbatches = 4}, tight),
            "auto found no schedule that keeps at most 6 on every rank: the least limit that would do is 7");
  EXPECT_EQ(rejection({.ranks = 2, .microbatches = 0}, {}), "a step needs at least 1 microbatch, got 0");
  EXPECT_EQ(rejection({.ranks = 2, .microbatches = 4}, {.durations = {.stages = std::vector<StageTimes>(3)}}),
            "durations are needed for 1 stage (they hold for all) or 2 stages, got 3");
}

}  // namespace
}  // namespace braid::schedule
