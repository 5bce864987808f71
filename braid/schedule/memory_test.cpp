#include "braid/schedule/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

Schedule on_one_rank(const char* actions, PipelineShape shape) {
  return {.name = "mine", .shape = shape, .ranks = {parse_actions(actions)}};
}

TEST(PeakMemory, FollowsTheOrderOfARanksList) {
  const Memory memory = {.stages = {{.forward_to_backward = 10, .backward_to_weight = 3}}};
  EXPECT_EQ(peak_memory(on_one_rank("F0 F1 B0 B1", {.microbatches = 2}), memory), std::vector<int64_t>{20});
  EXPECT_EQ(peak_memory(on_one_rank("F0 I0 F1 W0 B1", {.microbatches = 2}), memory),
            std::vector<int64_t>{13});
  // W may keep more than F did.
  const Memory heavy = {.stages = {{.forward_to_backward = 2, .backward_to_weight = 5}}};
  EXPECT_EQ(peak_memory(on_one_rank("F0 F1 I0 I1 W0 W1", {.microbatches = 2}), heavy),
            std::vector<int64_t>{10});
}

TEST(PeakMemory, TakesEachStagesOwn) {
  const Memory memory = {.stages = {{10, 1}, {100, 1}}};
  EXPECT_EQ(peak_memory(on_one_rank("F0 F0c1 B0c1 B0", {.chunks_per_rank = 2}), memory),
            std::vector<int64_t>{110});
}

TEST(PeakMemory, RejectsWhatItCannotAddUp) {
  const Schedule schedule = on_one_rank("F0 B0", {});
  EXPECT_THROW(peak_memory(schedule, {.stages = {{-1, 0}}}), ConfigError);
  EXPECT_THROW(peak_memory(schedule, {.stages = {{int64_t{1} << 62, 0}}}), ConfigError);
  EXPECT_THROW(peak_memory(schedule, {.stages = {{}, {}}}), ConfigError);
}

TEST(AmountText, ReadsBackAsTheSameAmount) {
  EXPECT_EQ(amount_text({.scale = 1}, 1234567), "1234567");
  const Memory thirds = {.scale = 720720};
  EXPECT_EQ(amount_text(thirds, 720720), "1");
  EXPECT_EQ(amount_text(thirds, 240240), "0.333333");
  EXPECT_EQ(amount_text(thirds, 960960), "1.333333");
  for (int64_t amount = 1; amount < int64_t{1} << 52; amount = 3 * amount + 1) {
    const std::string text = amount_text(thirds, amount);
    EXPECT_EQ(std::llround(std::stod(text) * 720720), amount) << text;
  }
}

TEST(RequireWithin, TellsWhichRankKeepsTooMuch) {
  const Memory memory = {.stages = {{.forward_to_backward = 10, .backward_to_weight = 3}}};
  const Schedule schedule = on_one_rank("F0 F1 B0 B1", {.microbatches = 2});
  EXPECT_NO_THROW(require_within(schedule, memory, 20));
  EXPECT_THROW(require_within(schedule, {.stages = memory.stages, .scale = 10}, 19), ConfigError);
  try {
    require_within(schedule, memory, 19);
    FAIL() << "was accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "mine keeps 20 on rank 0, more than the limit of 19: raise the limit, or take a schedule that "
        "keeps less (V-Half, V-Min, auto)");
  }
}

}  // namespace
}  // namespace braid::schedule
