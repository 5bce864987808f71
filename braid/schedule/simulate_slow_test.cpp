#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

#include "braid/schedule/generators/generate.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

// A planner asks such questions by the dozen. Measured alone here: well under the limits, which allow for
// slow machines.
TEST(SimulateSlow, TenThousandRanksAndAThousandMicrobatches) {
  const auto begin = std::chrono::steady_clock::now();
  const Schedule schedule = generate("1F1B", {.ranks = 10'000, .microbatches = 1'000});
  const Simulation simulation = simulate(schedule, {});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(simulation.step_time, Seconds(3.0 * (1'000 + 10'000 - 1)));
  EXPECT_LT(elapsed.count(), 10.0);
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 4L << 20) << "peak resident KiB";
  RecordProperty("seconds", std::to_string(elapsed.count()));
  RecordProperty("peak_kib", std::to_string(usage.ru_maxrss));
}

}  // namespace
}  // namespace braid::schedule
