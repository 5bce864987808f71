#include "braid/config/schedule_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::config {
namespace {

using schedule::Seconds;
using testing::HasSubstr;

const schedule::Durations kDurations = {.stages = {{Seconds(0.1), Seconds(0.2), Seconds(0.3)},
                                                   {.forward = Seconds(1.0 / 3),
                                                    .backward_input = Seconds(2),
                                                    .backward_weight = Seconds(3),
                                                    .fused_backward = Seconds(4),
                                                    .forward_exchange = Seconds(0.1 / 3),
                                                    .backward_exchange = Seconds(1)}},
                                        .communication = Seconds(1e-5)};

std::string error_of(const std::string& text, const schedule::PipelineShape& shape) {
  try {
    parse_schedule_times(text, shape, "--times");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(ScheduleTimes, NumbersAreDividedAmongChunks) {
  EXPECT_EQ(parse_schedule_times("2,4,6", {.ranks = 3, .chunks_per_rank = 2}, "--times"),
            (schedule::Durations{.stages = {{Seconds(1), Seconds(2), Seconds(3)}}}));
}

TEST(ScheduleTimes, FilesReadBackExactly) {
  const ScratchDirectory directory;
  const std::string path = directory.write("times.json", to_json(kDurations));
  EXPECT_EQ(parse_schedule_times("file:" + path, {.ranks = 2}, "--times"), kDurations);
  EXPECT_THAT(error_of("file:" + path, {.ranks = 2, .chunks_per_rank = 2}),
              HasSubstr("has times for 2 stages, but the pipeline has 4 (2 ranks, 2 chunks per rank)"));
}

TEST(ScheduleTimes, RejectsOtherFiles) {
  const ScratchDirectory directory;
  EXPECT_THAT(error_of("file:" + directory.write("a", "{}"), {}),
              HasSubstr("is not a file of stage times, as --profile_steps writes it: it needs the number"));
  EXPECT_THAT(error_of("file:" + directory.write("b", "F,I"), {}),
              HasSubstr("b is not valid JSON: line 1, column 1"));
  EXPECT_THAT(error_of("file:/no/such", {}), HasSubstr("/no/such"));
  EXPECT_THAT(error_of("1,2", {}), HasSubstr("--times must be 3 numbers"));
}

}  // namespace
}  // namespace braid::config
