// Nothing hangs: many small pipelines of every mode, many orders drawn by chance, and messages that no
// socket's buffer can hold.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "braid/schedule/generators/generate.h"
#include "braid/tensor/memory.h"
#include "braid/train/stress_test_support.h"

namespace braid::train {
namespace {

using schedule::ReceivePosting;

TEST(Stress, EverySmallPipelineOfEveryModeRuns) {
  tensor::install_cpu_allocator();
  EXPECT_GE(expect_modes_run({1, 2, 3, 4, 8}, {1, 2, 3, 5, 8}), 900u);
}

TEST(Stress, AnyOrderThatDataAllowsRunsFromItsCsvFile) {
  tensor::install_cpu_allocator();
  auto placements = expect_random_schedules_run(200, 20240602);
  EXPECT_GE(placements[schedule::Placement::kTable], 50);
  EXPECT_EQ(placements.size(), 3u);
}

TEST(Stress, MessagesOf16MiBArrive) {
  tensor::install_cpu_allocator();
  std::mt19937 random(1);
  std::vector<EmulatedSchedule> schedules;
  for (const char* mode : {"1F1B", "ZBH1", "ZBVPP", "DualPipeV"}) {
    const int32_t chunks = schedule::mode_of(mode).chunks.value();
    schedules.push_back(
        {.compute = schedule::generate(mode, {.ranks = 4, .chunks_per_rank = chunks, .microbatches = 8}),
         .durations = random_durations(random, 4 * chunks)});
  }
  for (const ReceivePosting receives : {ReceivePosting::kJustInTime, ReceivePosting::kEarly}) {
    SCOPED_TRACE(testing::Message() << "early receives: " << (receives == ReceivePosting::kEarly));
    expect_runs(schedules, receives, 2 << 20);
  }
}

}  // namespace
}  // namespace braid::train
