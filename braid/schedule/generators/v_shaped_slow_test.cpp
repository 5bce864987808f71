#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "braid/schedule/generators/generate.h"

namespace braid::schedule {
namespace {

// Every rank searches before a run starts. Measured alone here: well under the limit, which allows for slow
// machines.
TEST(VShapedSlow, ThirtyTwoRanksAnd256Microbatches) {
  const PipelineShape shape = {.ranks = 32, .chunks_per_rank = 2, .microbatches = 256};
  const StageTimes times = {.forward = Seconds(5.201e-3),
                            .backward_input = Seconds(5.124e-3),
                            .backward_weight = Seconds(3.849e-3)};
  const Workload workload = {.durations = {.stages = {times}, .communication = Seconds(0.46e-3)}};
  for (const std::string mode : {"ZBVPP", "V-Half", "V-Min"}) {
    const auto begin = std::chrono::steady_clock::now();
    generate(mode, shape, workload);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(elapsed.count(), 10.0) << mode;
    RecordProperty(mode, std::to_string(elapsed.count()));
  }
}

}  // namespace
}  // namespace braid::schedule
