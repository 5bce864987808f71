// What ZBVPP, V-Half and V-Min have in common, and what the literature says of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <string_view>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/generators/zb_v.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

constexpr std::array<std::string_view, 3> kModes = {"ZBVPP", "V-Half", "V-Min"};

PipelineShape v_shape(int32_t ranks, int32_t microbatches) {
  return {.ranks = ranks, .chunks_per_rank = 2, .microbatches = microbatches};
}

// Times of a full rank, in units of which a chunk takes half.
Durations halved(double forward, double backward_input, double backward_weight, double communication = 0) {
  return {.stages = {{.forward = Seconds(forward / 2),
                      .backward_input = Seconds(backward_input / 2),
                      .backward_weight = Seconds(backward_weight / 2)}},
          .communication = Seconds(communication)};
}

const Durations kEvenTimes = halved(1, 1, 1);
const Durations kUnevenTimes = halved(1, 1.2, 0.8);

double span(const Schedule& schedule, const Durations& durations) {
  return simulate(schedule, durations).longest_span.count();
}

// In the forwards of a full rank.
double bubble(const Schedule& schedule) {
  return span(schedule, kEvenTimes) - 3.0 * schedule.shape.microbatches;
}

// The most chunks of microbatches that a rank keeps; two are one microbatch of a full rank.
int32_t peak(const Schedule& schedule) {
  const std::vector<int32_t> peaks = check(schedule).peak_live_activations;
  return *std::max_element(peaks.begin(), peaks.end());
}

int64_t highest_peak(const Schedule& schedule, const Memory& memory) {
  const std::vector<int64_t> peaks = peak_memory(schedule, memory);
  return *std::max_element(peaks.begin(), peaks.end());
}

std::string rejection(std::string_view mode, const PipelineShape& shape, const Workload& workload = {}) {
  try {
    generate(mode, shape, workload);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

int32_t peak_law(std::string_view mode, int32_t ranks) {
  if (mode == "V-Min") return 2 * ((ranks + 4) / 3);
  return mode == "V-Half" ? 2 * ((ranks + 2) / 2) : 2 * ranks;
}

// The bubble with many microbatches, as the headers document it.
double bubble_law(std::string_view mode, int32_t ranks) {
  if (mode == "ZBVPP" || ranks <= 2) return 0;
  if (mode == "V-Half") return (3 * ranks - (ranks % 2 == 0 ? 7 : 4)) / 2.0;
  return (4 * ranks - (ranks % 3 == 0 ? 7 : 5)) / 2.0;
}

// The generator of V-Half's and V-Min's authors, run with T_F = T_B = T_W: the same for m = 2p, 3p and 4p.
TEST(VShaped, BubblesAndPeaksAreThePublishedOnesOrLess) {
  struct Row {
    std::string_view mode;
    int32_t ranks;
    double bubble;
    int32_t peak;
  };
  constexpr std::array kRows = {
      Row{"V-Min", 4, 5.5, 2},   Row{"V-Half", 4, 2.5, 3},   Row{"ZBVPP", 4, 0, 4},
      Row{"V-Min", 6, 8.5, 3},   Row{"V-Half", 6, 5.5, 4},   Row{"ZBVPP", 6, 0, 6},
      Row{"V-Min", 8, 13.5, 4},  Row{"V-Half", 8, 8.5, 5},   Row{"ZBVPP", 8, 0, 8},
      Row{"V-Min", 9, 14.5, 4},  Row{"V-Half", 9, 11.5, 5},  Row{"ZBVPP", 9, 0, 9},
      Row{"V-Min", 16, 29.5, 6}, Row{"V-Half", 16, 20.5, 9}, Row{"ZBVPP", 16, 0, 16}};
  for (const Row& row : kRows) {
    for (const int32_t times : {2, 3, 4}) {
      SCOPED_TRACE(testing::Message() << row.mode << " p " << row.ranks << " m " << times << "p");
      const Schedule schedule =
          generate(row.mode, v_shape(row.ranks, times * row.ranks), {.durations = kEvenTimes});
      EXPECT_LE(bubble(schedule), row.bubble);
      EXPECT_EQ(peak(schedule), 2 * row.peak);
    }
  }
}

TEST(VShaped, EverySmallPipelineKeepsToTheLawsOfBubbleAndPeak) {
  for (const std::string_view mode : kModes) {
    for (int32_t ranks = 1; ranks <= 8; ++ranks) {
      for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        SCOPED_TRACE(testing::Message() << mode << " p " << ranks << " m " << microbatches);
        const Schedule schedule = generate(mode, v_shape(ranks, microbatches), {.durations = kEvenTimes});
        ASSERT_NO_THROW(lower(schedule, {}));
        ASSERT_EQ(schedule.name, mode);
        ASSERT_LE(peak(schedule), peak_law(mode, ranks));
        if (microbatches >= 2 * ranks) {
          ASSERT_EQ(peak(schedule), peak_law(mode, ranks));
        }
        // Few microbatches cannot fill the way down and up the V and back.
        const double too_few = (4 * ranks - 1 - 4 * microbatches) / 2.0;
        const double too_few_for_steady = (2 * ranks - 1 - microbatches) / 2.0;
        ASSERT_LE(bubble(schedule), std::max({bubble_law(mode, ranks), too_few, too_few_for_steady}));
      }
    }
  }
}

TEST(VShaped, UnevenTimesLeaveEverySmallPipelineSound) {
  for (const std::string_view mode : kModes) {
    for (int32_t ranks = 1; ranks <= 8; ++ranks) {
      for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        SCOPED_TRACE(testing::Message() << mode << " p " << ranks << " m " << microbatches);
        const PipelineShape shape = v_shape(ranks, microbatches);
        const Schedule schedule = generate(mode, shape, {.durations = kUnevenTimes});
        ASSERT_NO_THROW(lower(schedule, {}));
        ASSERT_LE(peak(schedule), peak_law(mode, ranks));
        if (mode != "ZBVPP") continue;
        ASSERT_LE(span(schedule, kUnevenTimes), span(zb_v_by_hand(shape), kUnevenTimes));
      }
    }
  }
}

// Every stage with times of its own.
TEST(VShaped, ZbVppIsNeverLongerThanTheOrderByHand) {
  std::mt19937 random(20240606);
  for (int i = 0; i < 60; ++i) {
    const PipelineShape shape =
        v_shape(static_cast<int32_t>(1 + random() % 6), static_cast<int32_t>(1 + random() % 16));
    const auto time = [&] { return Seconds(0.1 * static_cast<double>(1 + random() % 20)); };
    Workload workload = {.durations = {.stages = {}, .communication = time() / 10}};
    for (int32_t stage = 0; stage < shape.stages(); ++stage) {
      workload.durations.stages.push_back(
          {.forward = time(), .backward_input = time(), .backward_weight = time()});
    }
    const Schedule by_hand = zb_v_by_hand(shape);
    const Schedule schedule = generate("ZBVPP", shape, workload);
    SCOPED_TRACE(to_string(schedule));
    ASSERT_NO_THROW(lower(schedule, {}));
    ASSERT_LE(span(schedule, workload.durations), span(by_hand, workload.durations));
    ASSERT_LE(highest_peak(schedule, workload.memory), highest_peak(by_hand, workload.memory));
  }
}

struct Setting {
  int32_t ranks;
  int32_t microbatches;
  double forward_ms, backward_input_ms, backward_weight_ms, communication_ms;
};

// Qi et al. 2023, arXiv:2401.10241, table 9.
constexpr std::array kPublishedTimes = {
    Setting{8, 24, 18.522, 18.086, 9.337, 0.601},   Setting{8, 32, 18.513, 18.086, 9.331, 0.626},
    Setting{8, 64, 18.546, 18.097, 9.321, 0.762},   Setting{8, 24, 29.718, 29.444, 19.927, 0.527},
    Setting{8, 32, 29.802, 29.428, 19.53, 0.577},   Setting{8, 64, 29.935, 29.621, 19.388, 0.535},
    Setting{16, 48, 11.347, 11.248, 8.132, 0.377},  Setting{16, 64, 11.307, 11.254, 8.101, 0.379},
    Setting{16, 128, 11.325, 11.308, 8.109, 0.378}, Setting{32, 96, 10.419, 10.207, 7.715, 0.408},
    Setting{32, 128, 10.408, 10.204, 7.703, 0.408}, Setting{32, 256, 10.402, 10.248, 7.698, 0.46}};

TEST(VShaped, ZbVppIsShorterThanTheOrderByHandWithPublishedTimes) {
  for (const Setting& setting : kPublishedTimes) {
    SCOPED_TRACE(testing::Message() << "p " << setting.ranks << " m " << setting.microbatches);
    const PipelineShape shape = v_shape(setting.ranks, setting.microbatches);
    const Durations durations = halved(setting.forward_ms, setting.backward_input_ms,
                                       setting.backward_weight_ms, setting.communication_ms);
    const Schedule schedule = generate("ZBVPP", shape, {.durations = durations});
    EXPECT_LT(span(schedule, durations), span(zb_v_by_hand(shape), durations));
    EXPECT_EQ(peak(schedule), 2 * setting.ranks);
  }
}

// Made for the times that count, an order is shorter than made for even times.
TEST(VShaped, VHalfAndVMinAreSqueezedForTheTimesOfTheWorkload) {
  for (const std::string_view mode : {"V-Half", "V-Min"}) {
    for (const Setting& setting : kPublishedTimes) {
      if (setting.ranks > 8) continue;
      SCOPED_TRACE(testing::Message() << mode << " p " << setting.ranks << " m " << setting.microbatches);
      const PipelineShape shape = v_shape(setting.ranks, setting.microbatches);
      const Durations durations = halved(setting.forward_ms, setting.backward_input_ms,
                                         setting.backward_weight_ms, setting.communication_ms);
      const Schedule squeezed = generate(mode, shape, {.durations = durations});
      EXPECT_LT(span(squeezed, durations), span(generate(mode, shape), durations));
      EXPECT_LE(peak(squeezed), peak_law(mode, setting.ranks));
    }
  }
}

// Any limit with room for one microbatch will do, also where a stage keeps more between I and W than before
// I.
TEST(VShaped, ZbVppKeepsToTheMemoryLimit) {
  std::mt19937 random(20240707);
  for (int i = 0; i < 300; ++i) {
    const PipelineShape shape =
        v_shape(static_cast<int32_t>(1 + random() % 6), static_cast<int32_t>(1 + random() % 12));
    Workload workload = {.memory = {.stages = {}}};
    for (int32_t stage = 0; stage < shape.stages(); ++stage) {
      workload.memory.stages.push_back({.forward_to_backward = static_cast<int64_t>(random() % 6),
                                        .backward_to_weight = static_cast<int64_t>(random() % 6)});
    }
    const int64_t least = highest_peak(zb_v_by_hand(v_shape(shape.ranks, 1)), workload.memory);
    const int64_t most = highest_peak(zb_v_by_hand(shape), workload.memory);
    workload.memory_limit = least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 3));
    const Schedule schedule = generate("ZBVPP", shape, workload);
    SCOPED_TRACE(to_string(schedule));
    ASSERT_NO_THROW(lower(schedule, {}));
    ASSERT_LE(highest_peak(schedule, workload.memory), *workload.memory_limit);
  }
}

// Between V-Min's and ZB-V's memory, more of it never costs time in steps of a full microbatch.
TEST(VShaped, MoreMemoryMakesAShorterBubble) {
  constexpr std::array kBubbles = {11.5, 8.5, 5.5, 2.5, 0.0};
  for (size_t i = 0; i < kBubbles.size(); ++i) {
    const auto limit = static_cast<int64_t>(8 + 2 * i);
    EXPECT_LE(bubble(generate("ZBVPP", v_shape(8, 24), {.durations = kEvenTimes, .memory_limit = limit})),
              kBubbles[i])
        << "limit " << limit;
  }
}

TEST(VShapedRejections, NameTheModeAndWhatWouldDo) {
  for (const std::string_view mode : kModes) {
    EXPECT_EQ(rejection(mode, {.ranks = 4, .microbatches = 8}),
              std::string(mode) + " runs with 2 chunks per rank, got 1");
    EXPECT_EQ(rejection(mode, v_shape(4, 0)), "a step needs at least 1 microbatch, got 0");
    EXPECT_EQ(rejection(mode, v_shape(4, 8), {.durations = {.stages = std::vector<StageTimes>(3)}}),
              "durations are needed for 1 stage (they hold for all) or 8 stages, got 3");
  }
  Workload workload = {.memory = {.stages = {{.forward_to_backward = 3, .backward_to_weight = 4}}},
                       .memory_limit = 6};
  EXPECT_EQ(rejection("ZBVPP", v_shape(4, 8), workload),
            "ZBVPP cannot keep to the memory limit of 6: rank 0 needs 7 for a single microbatch on its 2 "
            "chunks; raise the limit to that or more");
  workload.memory_limit = 7;
  EXPECT_EQ(rejection("ZBVPP", v_shape(4, 8), workload), "was accepted");
  EXPECT_EQ(
      rejection("V-Half", v_shape(4, 8), {.memory_limit = 5}),
      "V-Half keeps 6 on rank 0, more than the limit of 5: raise the limit, or take a schedule that keeps "
      "less (V-Half, V-Min, auto)");
}

}  // namespace
}  // namespace braid::schedule
