#include <gtest/gtest.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

// Sums of powers of two, so that sums of times are exact: W below, at and above F.
constexpr double kTimes[][3] = {{1.0, 1.25, 0.75}, {1.0, 1.0, 1.0}, {1.0, 0.75, 1.25}, {2.0, 1.0, 0.5}};

double bubble_of(const Schedule& schedule, double f, double i, double w) {
  const Durations durations = {.stages = {{Seconds(f), Seconds(i), Seconds(w)}}};
  return simulate(schedule, durations).longest_span.count() - schedule.shape.microbatches * (f + i + w);
}

// PaddlePaddle's order, which check rejects: its weight gradients are not in ascending order.
Schedule paddle_order(int32_t ranks, int32_t microbatches) {
  Schedule schedule = {.name = "Paddle", .shape = {.ranks = ranks, .microbatches = microbatches}};
  for (int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<Action> list;
    int32_t forwards = 0;
    int32_t backwards = 0;
    const auto forward = [&] { list.push_back({.op = Op::kForward, .microbatch = forwards++}); };
    const auto backward = [&](Op op) { list.push_back({.op = op, .microbatch = backwards++}); };
    while (forwards < ranks - rank) forward();
    while (forwards < microbatches) {
      backward(backwards < rank ? Op::kBackwardInput : Op::kBackward);
      forward();
    }
    while (backwards < microbatches - 1) {
      backward(backwards < rank ? Op::kBackwardInput : Op::kBackward);
    }
    backward(rank > 0 ? Op::kBackwardInput : Op::kBackward);
    if (rank > 0) list.push_back({.op = Op::kBackwardWeight, .microbatch = microbatches - 1});
    for (int32_t i = 0; i < rank; ++i) list.push_back({.op = Op::kBackwardWeight, .microbatch = i});
    schedule.ranks.push_back(std::move(list));
  }
  return schedule;
}

TEST(ZbH1Fused, EverySmallPipelineHasTheDocumentedBubbleAndThePeakOfZbH1) {
  const Memory memory = {.stages = {{.forward_to_backward = 100, .backward_to_weight = 37}}};
  for (int32_t p = 1; p <= 8; ++p) {
    for (int32_t m = 1; m <= 24; ++m) {
      SCOPED_TRACE(testing::Message() << "p " << p << " m " << m);
      const Schedule schedule = generate("ZBH1-fused", {.ranks = p, .microbatches = m});
      const Schedule split = generate("ZBH1", {.ranks = p, .microbatches = m});
      ASSERT_EQ(check(schedule).peak_live_activations, check(split).peak_live_activations);
      ASSERT_EQ(peak_memory(schedule, memory), peak_memory(split, memory));
      for (const auto& [f, i, w] : kTimes) {
        const double expected =
            m > p && p >= 2 ? (p - 1) * (i + std::max(f, w)) - w : bubble_of(split, f, i, w);
        ASSERT_EQ(bubble_of(schedule, f, i, w), expected);
      }
    }
  }
}

TEST(ZbH1Fused, IsAsFarFromPaddlesOrderAsDocumented) {
  for (int32_t p = 2; p <= 8; ++p) {
    for (int32_t m = p + 1; m <= 24; ++m) {
      SCOPED_TRACE(testing::Message() << "p " << p << " m " << m);
      const Schedule paddle = paddle_order(p, m);
      EXPECT_THROW(check(paddle), ConfigError);
      const Schedule schedule = generate("ZBH1-fused", {.ranks = p, .microbatches = m});
      for (const auto& [f, i, w] : kTimes) {
        const double theirs = bubble_of(paddle, f, i, w);
        ASSERT_EQ(theirs, (p - 1) * i + std::max((p - 2) * f, (p - 1) * (f - w)));
        const double difference = w >= f ? (p - 2) * (w - f) : std::min(f - w, (p - 2) * w);
        ASSERT_EQ(bubble_of(schedule, f, i, w), theirs + difference);
      }
    }
  }
}

TEST(ZbH1FusedGolden, FourRanksSevenMicrobatches) {
  EXPECT_EQ(to_string(generate("ZBH1-fused", {.ranks = 4, .microbatches = 7})),
            "ZBH1-fused\n"
            "rank 0: F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 B4 B5 B6\n"
            "rank 1: F0 F1 F2 B0 F3 B1 F4 B2 F5 I3 F6 I4 W3 I5 W4 I6 W5 W6\n"
            "rank 2: F0 F1 B0 F2 B1 F3 B2 F4 I3 F5 I4 F6 I5 W3 I6 W4 W5 W6\n"
            "rank 3: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 W4 W5 W6\n");
}

}  // namespace
}  // namespace braid::schedule
