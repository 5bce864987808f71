#include "braid/schedule/generators/alternation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

// Powers of two and their sums, so that sums of times are exact.
struct Times {
  double f, i, w;
};
constexpr Times kTimes[] = {{1.0, 1.25, 0.75}, {1.0, 1.0, 1.0}, {1.5, 0.75, 1.0}};

std::string rejection(std::string_view mode, const PipelineShape& shape) {
  try {
    generate(mode, shape);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

double bubble_of(const Schedule& schedule, const Times& times) {
  const Durations durations = {.stages = {{Seconds(times.f), Seconds(times.i), Seconds(times.w)}}};
  const int32_t cells = schedule.shape.chunks_per_rank * schedule.shape.microbatches;
  return simulate(schedule, durations).longest_span.count() - cells * (times.f + times.i + times.w);
}

// Calls `expect` with every schedule of `mode` with p <= 8, m <= 24 and chunks up to `most_chunks`, after
// check has proved it.
template <typename Expect>
void for_every_small_pipeline(std::string_view mode, int32_t most_chunks, Expect&& expect) {
  for (int32_t chunks = 1; chunks <= most_chunks; ++chunks) {
    for (int32_t ranks = 1; ranks <= 8; ++ranks) {
      for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        // The interleaved schedules need equal rounds; the others have one chunk, or no rounds.
        if ((mode == "VPP" || mode == "InterleavedZB") &&
            microbatches % std::max(1, microbatches / ranks) != 0)
          continue;
        SCOPED_TRACE(testing::Message()
                     << mode << " p " << ranks << " v " << chunks << " m " << microbatches);
        const PipelineShape shape = {.ranks = ranks, .chunks_per_rank = chunks, .microbatches = microbatches};
        const Schedule schedule = generate(mode, shape);
        ASSERT_NO_FATAL_FAILURE(expect(schedule, check(schedule).peak_live_activations));
      }
    }
  }
}

// The rest of the bubble of a schedule that runs its chunks in rounds of fewer microbatches than there are
// ranks.
double missing_microbatches(const PipelineShape& shape) {
  return (shape.chunks_per_rank - 1.0) * std::max(shape.ranks - shape.microbatches, 0);
}

TEST(FThenB, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for_every_small_pipeline("FThenB", 4, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
    const auto& [p, v, m] = schedule.shape;
    ASSERT_EQ(peaks, std::vector<int32_t>(static_cast<size_t>(p), v * m));
    for (const auto& [f, i, w] : kTimes) {
      ASSERT_EQ(bubble_of(schedule, {f, i, w}), (p - 1 + missing_microbatches(schedule.shape)) * (f + i + w));
    }
  });
}

TEST(EagerOneFOneB, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for_every_small_pipeline("Eager1F1B", 1, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
    const auto& [p, v, m] = schedule.shape;
    for (int32_t rank = 0; rank < p; ++rank) {
      ASSERT_EQ(peaks[static_cast<size_t>(rank)], std::min(2 * (p - rank) - 1, m));
    }
    for (const auto& [f, i, w] : kTimes) ASSERT_EQ(bubble_of(schedule, {f, i, w}), (p - 1) * (f + i + w));
  });
}

// What it is for: a message of half a microbatch's time costs 1F1B a bubble in every microbatch, and
// Eager1F1B only while the pipeline fills and drains.
TEST(EagerOneFOneB, HidesMessages) {
  const PipelineShape shape = {.ranks = 4, .microbatches = 24};
  const Durations durations = {.communication = Seconds(0.5)};
  const auto span = [&](std::string_view mode) {
    return simulate(generate(mode, shape), durations).longest_span;
  };
  EXPECT_EQ(span("Eager1F1B"), Seconds(3 * (24 + 3) + 2 * 3 * 0.5));
  EXPECT_GT(span("1F1B"), span("Eager1F1B") + Seconds(5));
}

TEST(Vpp, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for_every_small_pipeline("VPP", 4, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
    const auto& [p, v, m] = schedule.shape;
    const int32_t round = m / std::max(1, m / p);
    for (int32_t rank = 0; rank < p; ++rank) {
      ASSERT_EQ(peaks[static_cast<size_t>(rank)], std::min(2 * (p - rank) - 1 + (v - 1) * round, v * m));
    }
    for (const auto& [f, i, w] : kTimes) {
      ASSERT_EQ(bubble_of(schedule, {f, i, w}), (p - 1 + missing_microbatches(schedule.shape)) * (f + i + w));
    }
  });
}

TEST(ZbH1, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for_every_small_pipeline("ZBH1", 1, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
    const auto& [p, v, m] = schedule.shape;
    ASSERT_EQ(peaks, std::vector<int32_t>(static_cast<size_t>(p), std::min(p, m)));
    for (const auto& [f, i, w] : kTimes) {
      ASSERT_EQ(bubble_of(schedule, {f, i, w}), (p - 1) * (f + i) - (std::min(m, p) - 1) * w);
    }
    if (m < p) return;
    const std::vector<int64_t> memory =
        peak_memory(schedule, {.stages = {{.forward_to_backward = 100, .backward_to_weight = 37}}});
    // After a forward p - r wait for I; right after the I of one of them, one more waits for W.
    for (int32_t rank = 0; rank < p; ++rank) {
      ASSERT_EQ(memory[static_cast<size_t>(rank)], (p - rank) * 100 + rank * 37);
    }
  });
}

TEST(ZbH2, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for_every_small_pipeline("ZBH2", 1, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
    const auto& [p, v, m] = schedule.shape;
    ASSERT_EQ(peaks, std::vector<int32_t>(static_cast<size_t>(p), std::min(2 * p - 1, m)));
    for (const auto& [f, i, w] : kTimes) {
      ASSERT_EQ(bubble_of(schedule, {f, i, w}), (p - 1) * (f + i) - (std::min(m, 2 * p - 1) - 1) * w);
    }
    if (m < 2 * p - 1) return;
    const std::vector<int64_t> memory =
        peak_memory(schedule, {.stages = {{.forward_to_backward = 100, .backward_to_weight = 37}}});
    for (int32_t rank = 0; rank < p; ++rank) {
      ASSERT_EQ(memory[static_cast<size_t>(rank)], (2 * (p - rank) - 1) * 100 + 2 * rank * 37);
    }
  });
}

TEST(InterleavedZb, EverySmallPipelineHasTheKnownBubbleAndPeak) {
  for_every_small_pipeline(
      "InterleavedZB", 4, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
        const auto& [p, v, m] = schedule.shape;
        const int32_t round = m / std::max(1, m / p);
        ASSERT_EQ(peaks, std::vector<int32_t>(static_cast<size_t>(p), std::min(p + (v - 1) * round, v * m)));
        if (m < p) return;
        for (const auto& [f, i, w] : kTimes) ASSERT_EQ(bubble_of(schedule, {f, i, w}), (p - 1) * (f + i - w));
      });
}

TEST(InterleavedSchedules, WithOneChunkAreThoseOfOneChunk) {
  const auto ranks_of = [](std::string_view mode, int32_t microbatches) {
    return generate(mode, {.ranks = 4, .microbatches = microbatches}).ranks;
  };
  for (const int32_t microbatches : {1, 3, 4, 8, 10}) {
    EXPECT_EQ(ranks_of("VPP", microbatches), ranks_of("Eager1F1B", microbatches));
    EXPECT_EQ(ranks_of("InterleavedZB", microbatches), ranks_of("ZBH1", microbatches));
  }
}

TEST(InterleavedSchedules, AreSoundWithMessagesForAnyNumberOfChunks) {
  for (const std::string_view mode : {"FThenB", "VPP", "InterleavedZB"}) {
    for_every_small_pipeline(mode, 4, [](const Schedule& schedule, const std::vector<int32_t>& peaks) {
      if (schedule.shape.microbatches > 9 || schedule.shape.ranks > 5) return;
      ASSERT_EQ(check(lower(schedule, {.receives = ReceivePosting::kEarly})).peak_live_activations, peaks);
    });
  }
}

TEST(AlternationGolden, FThenBWithTwoChunks) {
  EXPECT_EQ(to_string(generate("FThenB", {.ranks = 1, .chunks_per_rank = 2, .microbatches = 2})),
            "FThenB\n"
            "rank 0: F0 F1 F0c1 F1c1 B0c1 B1c1 B0 B1\n");
}

TEST(AlternationGolden, Eager1F1B) {
  EXPECT_EQ(to_string(generate("Eager1F1B", {.ranks = 3, .microbatches = 6})),
            "Eager1F1B\n"
            "rank 0: F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5\n"
            "rank 1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5\n"
            "rank 2: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5\n");
}

TEST(AlternationGolden, Vpp) {
  EXPECT_EQ(to_string(generate("VPP", {.ranks = 2, .chunks_per_rank = 2, .microbatches = 4})),
            "VPP\n"
            "rank 0: F0 F1 F0c1 F1c1 F2 B0c1 F3 B1c1 F2c1 B0 F3c1 B1 B2c1 B3c1 B2 B3\n"
            "rank 1: F0 F1 F0c1 B0c1 F1c1 B1c1 F2 B0 F3 B1 F2c1 B2c1 F3c1 B3c1 B2 B3\n");
}

// The order of rounds longer than the number of ranks.
TEST(AlternationGolden, VppWithRoundsOfThreeOnTwoRanks) {
  EXPECT_EQ(to_string(generate("VPP", {.ranks = 2, .chunks_per_rank = 2, .microbatches = 3}).ranks[1]),
            "F0 F1 F2 F0c1 B0c1 F1c1 B1c1 F2c1 B2c1 B0 B1 B2");
}

TEST(AlternationGolden, ZbH1) {
  EXPECT_EQ(to_string(generate("ZBH1", {.ranks = 4, .microbatches = 8})),
            "ZBH1\n"
            "rank 0: F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7\n"
            "rank 1: F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7\n"
            "rank 2: F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7\n"
            "rank 3: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7\n");
}

TEST(AlternationGolden, ZbH2) {
  const Schedule schedule = generate("ZBH2", {.ranks = 4, .microbatches = 8});
  EXPECT_EQ(to_string(schedule.ranks[0]),
            "F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7");
  EXPECT_EQ(to_string(schedule.ranks[3]),
            "F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7");
  const Simulation simulation = simulate(schedule, {});
  EXPECT_EQ(simulation.longest_span, Seconds(24));
  EXPECT_EQ(simulation.step_time, Seconds(27));
}

TEST(AlternationGolden, InterleavedZb) {
  EXPECT_EQ(to_string(generate("InterleavedZB", {.ranks = 2, .chunks_per_rank = 2, .microbatches = 2})),
            "InterleavedZB\n"
            "rank 0: F0 F1 F0c1 F1c1 I0c1 W0c1 I1c1 W1c1 I0 W0 I1 W1\n"
            "rank 1: F0 F1 F0c1 I0c1 F1c1 I1c1 W0c1 I0 W1c1 I1 W0 W1\n");
}

TEST(AlternationRejections, NameTheScheduleThatWouldDo) {
  const PipelineShape two_chunks = {.ranks = 4, .chunks_per_rank = 2, .microbatches = 8};
  EXPECT_EQ(rejection("Eager1F1B", two_chunks),
            "Eager1F1B runs with 1 chunk per rank, got 2: use VPP for more");
  EXPECT_EQ(rejection("ZBH1", two_chunks),
            "ZBH1 runs with 1 chunk per rank, got 2: use InterleavedZB for more");
  EXPECT_EQ(rejection("ZBH1-fused", two_chunks),
            "ZBH1-fused runs with 1 chunk per rank, got 2: use InterleavedZB for more");
  EXPECT_EQ(rejection("ZBH2", two_chunks),
            "ZBH2 runs with 1 chunk per rank, got 2: use InterleavedZB for more");
  EXPECT_EQ(rejection("ZBH2", {.chunks_per_rank = 0}), "a pipeline rank needs at least 1 chunk, got 0");
}

TEST(AlternationRejections, NameTheNearestNumbersOfMicrobatchesThatWouldDo) {
  EXPECT_EQ(rejection("VPP", {.ranks = 4, .chunks_per_rank = 2, .microbatches = 9}),
            "VPP on 4 ranks cannot run 9 microbatches in 2 equal rounds: take 8 or 10 microbatches");
  EXPECT_EQ(
      rejection("InterleavedZB", {.ranks = 8, .chunks_per_rank = 3, .microbatches = 35}),
      "InterleavedZB on 8 ranks cannot run 35 microbatches in 4 equal rounds: take 32 or 36 microbatches");
  EXPECT_EQ(rejection("VPP", {.ranks = 2, .microbatches = (1 << 27) - 1}),
            "VPP on 2 ranks cannot run 134217727 microbatches in 67108863 equal rounds: take 134217726 or "
            "134217728 microbatches");
}

}  // namespace
}  // namespace braid::schedule
