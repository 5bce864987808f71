#include "braid/schedule/generators/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

std::string rejection(std::string_view mode, const PipelineShape& shape) {
  try {
    generate(mode, shape);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

std::vector<int32_t> expected_peaks(std::string_view mode, const PipelineShape& shape) {
  std::vector<int32_t> peaks;
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    peaks.push_back(mode == "1F1B" ? std::min(shape.ranks - rank, shape.microbatches) : shape.microbatches);
  }
  return peaks;
}

// Complete, with the bubble (p-1)(F+B+W) and the peak of the literature, m < p included.
TEST(Generate, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  // Powers of two and their sums, so that sums of times are exact.
  const StageTimes times = {
      .forward = Seconds(1.0), .backward_input = Seconds(1.25), .backward_weight = Seconds(0.75)};
  for (const std::string_view mode : {"FThenB", "1F1B"}) {
    for (int32_t ranks = 1; ranks <= 8; ++ranks) {
      for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        SCOPED_TRACE(testing::Message() << mode << " p " << ranks << " m " << microbatches);
        const PipelineShape shape = {.ranks = ranks, .microbatches = microbatches};
        const Schedule schedule = generate(mode, shape);
        const CheckReport report = check(schedule);
        ASSERT_EQ(report.peak_live_activations, expected_peaks(mode, shape));
        ASSERT_EQ(report.messages, 2 * (ranks - 1) * microbatches);
        const Simulation simulation = simulate(schedule, {.stages = {times}});
        ASSERT_EQ(simulation.longest_span.count() - 3.0 * microbatches, 3.0 * (ranks - 1));
        ASSERT_DOUBLE_EQ(simulation.bubble_rate, (ranks - 1.0) / (microbatches + ranks - 1.0));
        ASSERT_EQ(simulation.peak_live_activations, report.peak_live_activations);
      }
    }
  }
}

TEST(GenerateGolden, FThenB) {
  EXPECT_EQ(to_string(generate("FThenB", {.ranks = 2, .microbatches = 3})),
            "FThenB\n"
            "rank 0: F0 F1 F2 B0 B1 B2\n"
            "rank 1: F0 F1 F2 B0 B1 B2\n");
}

TEST(GenerateGolden, OneFOneB) {
  EXPECT_EQ(to_string(generate("1F1B", {.ranks = 4, .microbatches = 6})),
            "1F1B\n"
            "rank 0: F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5\n"
            "rank 1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5\n"
            "rank 2: F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5\n"
            "rank 3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5\n");
}

TEST(GenerateGolden, OneFOneBWithFewerMicrobatchesThanRanks) {
  EXPECT_EQ(to_string(generate("1F1B", {.ranks = 4, .microbatches = 2})),
            "1F1B\n"
            "rank 0: F0 F1 B0 B1\n"
            "rank 1: F0 F1 B0 B1\n"
            "rank 2: F0 F1 B0 B1\n"
            "rank 3: F0 B0 F1 B1\n");
}

TEST(Generate, TakesPaddlesSpellingOfEager1F1B) {
  const PipelineShape shape = {.ranks = 3, .microbatches = 4};
  EXPECT_EQ(generate("Eager-1F1B", shape), generate("Eager1F1B", shape));
}

TEST(Generate, UnderstandsTheNamesOfOthers) {
  const std::vector<std::array<const char*, 2>> names = {{"GPipe", "FThenB"},
                                                         {"ScheduleGPipe", "FThenB"},
                                                         {"F-then-B", "FThenB"},
                                                         {"1f1b", "1F1B"},
                                                         {"Schedule1F1B", "1F1B"},
                                                         {"Interleaved1F1B", "VPP"},
                                                         {"vpp", "VPP"},
                                                         {"zb-h1", "ZBH1"},
                                                         {"ZB1P", "ZBH1"},
                                                         {"InterleavedZeroBubble", "InterleavedZB"},
                                                         {"zbv", "ZBVPP"},
                                                         {"ZBV", "ZBVPP"},
                                                         {"ZBVZeroBubble", "ZBVPP"},
                                                         {"dualpipev", "DualPipeV"},
                                                         {"ScheduleDualPipeV", "DualPipeV"},
                                                         {"v_half", "V-Half"},
                                                         {"AUTO", "auto"},
                                                         {"csv:gpipe", "csv:gpipe"},
                                                         {"mine", "mine"}};
  for (const auto& [other, own] : names) EXPECT_EQ(own_name(other), own) << other;
  for (const Mode& mode : modes()) EXPECT_EQ(own_name(mode.name), mode.name);
}

TEST(GenerateRejections, NameTheModeAndWhatWouldDo) {
  const PipelineShape shape = {.ranks = 4, .microbatches = 8};
  EXPECT_EQ(rejection("1f1c", shape), "there is no pipeline schedule mode \"1f1c\": did you mean 1F1B?");
  EXPECT_EQ(rejection("FThanB", shape),
            "there is no pipeline schedule mode \"FThanB\": did you mean FThenB?");
  EXPECT_EQ(rejection("dapple", shape),
            "there is no pipeline schedule mode \"dapple\": choose one of " + mode_names());
  EXPECT_EQ(rejection("1F1B", {.ranks = 4, .chunks_per_rank = 2, .microbatches = 8}),
            "1F1B runs with 1 chunk per rank, got 2: use VPP for more");
  EXPECT_EQ(rejection("1F1B", {.ranks = 4, .microbatches = 0}), "a step needs at least 1 microbatch, got 0");
  EXPECT_EQ(rejection("FThenB", {.ranks = 0}), "a pipeline needs at least 1 rank, got 0");
}

}  // namespace
}  // namespace braid::schedule
