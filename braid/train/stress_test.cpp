// Nothing hangs: small pipelines of every mode, and orders drawn by chance, over real links. Many more of
// both are in stress_slow_test.cpp.
#include <gtest/gtest.h>

#include "braid/tensor/memory.h"
#include "braid/train/stress_test_support.h"

namespace braid::train {
namespace {

TEST(Stress, SmallPipelinesOfEveryModeRun) {
  tensor::install_cpu_allocator();
  EXPECT_GE(expect_modes_run({1, 2, 3}, {1, 3, 8}), 150u);
}

TEST(Stress, AnyOrderThatDataAllowsRunsFromItsCsvFile) {
  tensor::install_cpu_allocator();
  auto placements = expect_random_schedules_run(20, 20240601);
  EXPECT_GE(placements[schedule::Placement::kTable], 3);
}

}  // namespace
}  // namespace braid::train
