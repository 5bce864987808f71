// Nothing hangs: small pipelines of every mode, and orders drawn by chance, over real links.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generate.h"
#include "braid/tensor/memory.h"
#include "braid/train/stress_test_support.h"

namespace braid::train {
namespace {

using schedule::PipelineShape;
using schedule::ReceivePosting;

constexpr schedule::Seconds kNoTime(0);
const schedule::Durations kNoTimes = {
    .stages = {{.forward = kNoTime, .backward_input = kNoTime, .backward_weight = kNoTime}},
    .communication = kNoTime};

// Nothing if `mode` refuses the shape.
std::optional<schedule::Schedule> if_accepted(const schedule::Mode& mode, const PipelineShape& shape) {
  try {
    return schedule::generate(mode.name, shape);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::vector<EmulatedSchedule> all_modes(int32_t ranks) {
  std::vector<EmulatedSchedule> schedules;
  for (const schedule::Mode& mode : schedule::modes()) {
    for (const int32_t microbatches : {1, 2, 3, 5, 8}) {
      for (const int32_t chunks : {1, 2, 3}) {
        const PipelineShape shape = {.ranks = ranks, .chunks_per_rank = chunks, .microbatches = microbatches};
        if (const auto compute = if_accepted(mode, shape)) {
          schedules.push_back({.compute = *compute, .durations = kNoTimes});
        }
      }
    }
  }
  return schedules;
}

TEST(Stress, EverySmallPipelineOfEveryModeRuns) {
  tensor::install_cpu_allocator();
  size_t runs = 0;
  for (const int32_t ranks : {1, 2, 3, 4, 8}) {
    const std::vector<EmulatedSchedule> schedules = all_modes(ranks);
    for (const ReceivePosting receives : {ReceivePosting::kJustInTime, ReceivePosting::kEarly}) {
      SCOPED_TRACE(testing::Message()
                   << ranks << " ranks, early receives " << (receives == ReceivePosting::kEarly));
      expect_runs(schedules, receives, 1);
      runs += schedules.size();
    }
  }
  EXPECT_GE(runs, 500u);
}

TEST(Stress, AnyOrderThatDataAllowsRunsFromItsCsvFile) {
  tensor::install_cpu_allocator();
  std::mt19937 random(20240601);
  std::map<schedule::Placement, int> placements;
  for (int i = 0; i < 200; ++i) {
    const PipelineShape shape = {.ranks = static_cast<int32_t>(1 + random() % 5),
                                 .chunks_per_rank = static_cast<int32_t>(1 + random() % 3),
                                 .microbatches = static_cast<int32_t>(1 + random() % 6)};
    const schedule::Schedule drawn = random_schedule(random, shape);
    const std::string csv = schedule::to_csv(drawn);
    SCOPED_TRACE(csv);
    const schedule::Schedule compute = schedule::from_csv(csv, drawn.name);
    EXPECT_EQ(compute, drawn);
    ASSERT_NO_THROW(schedule::check(compute));
    ++placements[compute.placement];
    expect_runs({{.compute = compute, .durations = random_durations(random, shape.stages())}},
                i % 2 == 0 ? ReceivePosting::kJustInTime : ReceivePosting::kEarly, 1);
  }
  EXPECT_GE(placements[schedule::Placement::kTable], 50);
  EXPECT_EQ(placements.size(), 3u);
}

}  // namespace
}  // namespace braid::train
