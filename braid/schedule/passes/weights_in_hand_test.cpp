#include "braid/schedule/passes/weights_in_hand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/draw_text.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/lower.h"

namespace braid::schedule {
namespace {

Schedule schedule_of(PipelineShape shape, const std::vector<std::string>& lists) {
  Schedule schedule = {.name = "by hand", .shape = shape};
  for (const std::string& list : lists) schedule.ranks.push_back(parse_actions(list));
  return schedule;
}

std::string error_of(const Schedule& schedule) {
  try {
    check(schedule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Durations with_exchange(Seconds forward, Seconds backward) {
  return {.stages = {{.forward = Seconds(4),
                      .backward_input = Seconds(4),
                      .backward_weight = Seconds(3),
                      .forward_exchange = forward,
                      .backward_exchange = backward}}};
}

TEST(WeightInHand, IsPartOfAnActionsText) {
  for (const std::string text : {"I3+W2", "F4c1+W2", "F4+W2c1", "I3c1s2+W1c1s2"}) {
    const Action action = parse_action(text);
    EXPECT_EQ(to_string(action), text);
    EXPECT_TRUE(action.weight.exists());
    EXPECT_EQ(weight_action(action)->op, Op::kBackwardWeight);
  }
  for (const std::string text :
       {"B3+W2", "W3+W2", "I3+I2", "I3+", "+W2", "I3+W2+W1", "SEND_F3+W2", "I3s1+W2"}) {
    EXPECT_THROW(parse_action(text), ConfigError) << text;
  }
}

TEST(WeightInHand, CheckAcceptsOneWhoseInputGradientIsThere) {
  EXPECT_EQ(error_of(schedule_of({.microbatches = 3}, {"F0 F1 I0 I1+W0 F2+W1 I2 W2"})), "");
  EXPECT_EQ(error_of(schedule_of({.chunks_per_rank = 2, .microbatches = 1}, {"F0 F0c1 I0c1 I0+W0c1 W0"})),
            "");
}

TEST(WeightInHand, CheckRejectsEveryWrongOne) {
  const auto expect_error = [](const char* list, std::string_view part) {
    const std::string error = error_of(schedule_of({.chunks_per_rank = 2, .microbatches = 2}, {list}));
    EXPECT_NE(error.find(part), std::string::npos) << list << ": " << error;
  };
  // Of its own microbatch, and of one whose I comes later.
  expect_error("F0 F0c1 I0c1 I0+W0 W0c1 F1 F1c1 I1c1 W1c1 I1 W1", "(I0+W0): W needs the I of its microbatch");
  expect_error("F0 F0c1 I0c1 W0c1 F1+W0 F1c1 I0 I1c1 W1c1 I1 W1", "(F1+W0): W needs the I of its microbatch");
  // Of the other chunk, whose I comes later.
  expect_error("F0 F0c1 F1+W0c1 I0c1 I0 W0 F1c1 I1c1 W1c1 I1 W1",
               "(F1+W0c1): W needs the I of its microbatch");
  // Twice: in hand and alone, in hand two times.
  expect_error("F0 F0c1 I0c1 I0+W0c1 W0c1 W0 F1 F1c1 I1c1 W1c1 I1 W1",
               "(W0c1): the weight gradients of this");
  expect_error("F0 F0c1 I0c1 I0 F1+W0 F1c1+W0 W0c1 I1c1 W1c1 I1 W1",
               "(F1c1+W0): the weight gradients of this");
  // Missing, and in another order than that of microbatches.
  expect_error("F0 F0c1 I0c1 I0 F1+W0 F1c1 I1c1 I1+W1c1 W1", "must add up in ascending order");
  expect_error("F0 F0c1 I0c1 W0c1 I0 F1+W0 F1c1 I1c1 I1+W1c1", "W1 is missing");
  expect_error("F0 F0c1 I0c1 W0c1 I0 F1 F1c1 I1c1 I1 W0 F1+W1 W1c1", "this forward has run before");
  // No such chunk, no such microbatch.
  expect_error("F0 F0c1 I0c1 I0+W0c2 W0c1 W0 F1 F1c1 I1c1 W1c1 I1 W1", "there is no such action");
  expect_error("F0 F0c1 I0c1 I0+W7c1 W0c1 W0 F1 F1c1 I1c1 W1c1 I1 W1", "there is no such action");
}

TEST(WeightInHand, OnlyForwardsAndInputGradientsHaveOne) {
  Schedule schedule = schedule_of({.microbatches = 2}, {"F0 F1 I0 W0 I1 W1"});
  schedule.ranks[0][5].weight = {.microbatch = 0};
  EXPECT_NE(error_of(schedule).find("there is no such action"), std::string::npos);
}

TEST(WeightInHand, TakesAsMuchLongerAsItIsLongerThanTheExchange) {
  const Schedule schedule = schedule_of({.microbatches = 2}, {"F0 I0 F1+W0 I1 W1"});
  const auto end_of = [&](Seconds forward) {
    return simulate(schedule, with_exchange(forward, Seconds(0))).ranks[0][2].end;
  };
  EXPECT_EQ(end_of(Seconds(0)), Seconds(8 + 4 + 3));
  EXPECT_EQ(end_of(Seconds(1)), Seconds(8 + 4 + 2));
  EXPECT_EQ(end_of(Seconds(3)), Seconds(8 + 4));
  EXPECT_EQ(end_of(Seconds(4)), Seconds(8 + 4));
}

TEST(WeightInHand, AFusedBackwardHidesItsOwn) {
  EXPECT_EQ(with_exchange(Seconds(0), Seconds(1)).of(0).backward(), Seconds(4 + 3 - 1));
  EXPECT_EQ(with_exchange(Seconds(0), Seconds(4)).of(0).backward(), Seconds(4));
}

// Two ranks, of which the second would wait: F = I = 4 of which an exchange takes 1, W = 3, messages 0.
//   rank 0: F0 0-4, F1 4-8, I0 12-16, W0 16-19, I1 19-23, W1 23-26
//   rank 1: F0 4-8, I0 8-12, W0 12-15, F1 15-19 (its input is there at 8), I1 19-23, W1 23-26
// Rank 1's F1 with W0 runs from 12 to 12 + 4 + 2 = 18, so rank 0 gets I1's input at 22, not 23. There, the
// input comes too late for I1 to take W0, which is done at 19 either way.
TEST(PlaceWeightsInHand, TakesTheOneThatPaysAndLeavesTheOther) {
  const Schedule schedule =
      schedule_of({.ranks = 2, .microbatches = 2}, {"F0 F1 I0 W0 I1 W1", "F0 I0 W0 F1 I1 W1"});
  const Durations durations = with_exchange(Seconds(1), Seconds(1));
  EXPECT_EQ(simulate(schedule, durations).step_time, Seconds(30));
  const Schedule placed = place_weights_in_hand(schedule, durations);
  EXPECT_EQ(to_string(placed.ranks[0]), "F0 F1 I0 W0 I1 W1");
  EXPECT_EQ(to_string(placed.ranks[1]), "F0 I0 F1+W0 I1 W1");
  EXPECT_EQ(simulate(placed, durations).step_time, Seconds(29));
  EXPECT_EQ(place_weights_in_hand(schedule, with_exchange(Seconds(0), Seconds(0))), schedule)
      << "nothing to hide behind";
}

// The first stage's I makes nothing that others need, so the W after it may delay it.
TEST(PlaceWeightsInHand, TakesTheWeightAfterAnActionThatNobodyWaitsFor) {
  const Schedule schedule = schedule_of({.microbatches = 2}, {"F0 F1 I0 I1 W0 W1"});
  const Schedule placed = place_weights_in_hand(schedule, with_exchange(Seconds(1), Seconds(1)));
  EXPECT_EQ(to_string(placed.ranks[0]), "F0 F1 I0 I1+W0 W1");
}

TEST(PlaceWeightsInHand, EverySmallScheduleStaysValidNoSlowerAndNoLarger) {
  int64_t placed_in_all = 0;
  int faster = 0;
  for (const Mode& mode : modes()) {
    for (int32_t ranks = 1; ranks <= 4; ++ranks) {
      for (int32_t microbatches = 1; microbatches <= 8; ++microbatches) {
        for (const int32_t chunks : {1, 2}) {
          const PipelineShape shape = {
              .ranks = ranks, .chunks_per_rank = chunks, .microbatches = microbatches};
          for (const auto& [forward, backward, message] :
               {std::tuple(0.2, 0.2, 0.0), std::tuple(0.5, 0.25, 0.1), std::tuple(1.2, 1.2, 0.3)}) {
            Durations durations = {.stages = {{.forward = Seconds(1.5 / chunks),
                                               .backward_input = Seconds(1.75 / chunks),
                                               .backward_weight = Seconds(1.0 / chunks),
                                               .forward_exchange = Seconds(forward / chunks),
                                               .backward_exchange = Seconds(backward / chunks)}},
                                   .communication = Seconds(message)};
            Schedule plain;
            try {
              plain = generate(mode.name, shape, {.durations = durations});
            } catch (const ConfigError&) {
              continue;  // the mode does not suit the shape
            }
            SCOPED_TRACE(testing::Message()
                         << mode.name << ", " << ranks << " ranks, " << chunks << " chunks, " << microbatches
                         << " microbatches, exchange " << forward);
            const Schedule placed = place_weights_in_hand(plain, durations);
            ASSERT_EQ(error_of(placed), "");
            const Simulation before = simulate(plain, durations), after = simulate(placed, durations);
            const double bound = 1e-9;  // of sums in another order
            ASSERT_LE(after.step_time.count(), before.step_time.count() + bound);
            placed_in_all += count_weights_in_hand(placed);
            faster += after.step_time.count() < before.step_time.count() - bound ? 1 : 0;
            ASSERT_EQ(placed, place_weights_in_hand(plain, durations));

            const Memory memory = {.stages = {{.forward_to_backward = 5, .backward_to_weight = 3}}};
            const std::vector<int64_t> most = peak_memory(plain, memory), kept = peak_memory(placed, memory);
            for (size_t rank = 0; rank < kept.size(); ++rank)
              ASSERT_LE(kept[rank], most[rank]) << "rank " << rank;

            const Schedule lowered_plain = lower(plain, {}), lowered = lower(placed, {});
            ASSERT_LE(simulate(lowered, durations).step_time.count(),
                      simulate(lowered_plain, durations).step_time.count() + bound);
          }
        }
      }
    }
  }
  EXPECT_GT(placed_in_all, 5000);
  EXPECT_GT(faster, 400);
}

TEST(PlaceWeightsInHand, RejectsWhatHasMessages) {
  const Schedule lowered = lower(generate("ZBH1", {.ranks = 2, .microbatches = 2}), {});
  EXPECT_THROW(place_weights_in_hand(lowered, with_exchange(Seconds(1), Seconds(1))), ConfigError);
}

// What layers keep: an I that needs more afterwards than before, and a W that frees most in its last layer.
TEST(WeightInHand, PeaksAreFollowedLayerByLayer) {
  const Schedule schedule = schedule_of({.microbatches = 2}, {"F0 F1 I0 I1+W0 W1"});
  Memory memory = {.stages = {{.forward_to_backward = 12, .backward_to_weight = 18}}};
  memory.layers = {{{.forward_to_backward = 2, .backward_to_weight = 10},
                    {.forward_to_backward = 10, .backward_to_weight = 8}}};
  // After I0 it keeps 12 + 18. The last layer's I1 and W0 leave 30 - 2 - 8, the first one's 20 + 8 - 10.
  EXPECT_EQ(peak_memory(schedule, memory), std::vector<int64_t>{30});
  // F2 and W0: 12 + 18 + 2 - 8 after the first layer, + 10 - 10 after the last: less than before.
  const Schedule forward = schedule_of({.microbatches = 3}, {"F0 F1 I0 F2+W0 I1 W1 I2 W2"});
  EXPECT_EQ(peak_memory(forward, memory), std::vector<int64_t>{30});
  memory.layers = {{{.forward_to_backward = 11, .backward_to_weight = 17},
                    {.forward_to_backward = 1, .backward_to_weight = 1}}};
  // 30 + 11 - 1 after the first layer of F2.
  EXPECT_EQ(peak_memory(forward, memory), std::vector<int64_t>{40});
  memory.layers.clear();
  EXPECT_EQ(peak_memory(forward, memory), std::vector<int64_t>{30}) << "two equal layers: + 6 - 9 for each";
}

TEST(WeightInHand, IsDrawnWithinItsAction) {
  const std::string drawing = draw_text(schedule_of({.microbatches = 2}, {"F0 F1 I0 I1+W0 W1"}), {});
  EXPECT_NE(drawing.find("|F0F1I0I1w0W1|"), std::string::npos) << drawing;
  EXPECT_NE(drawing.find("w within the action before it"), std::string::npos) << drawing;
}

TEST(WeightInHand, HasNoCellInACsvFile) {
  try {
    to_csv(schedule_of({.microbatches = 2}, {"F0 F1 I0 I1+W0 W1"}));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "schedule by hand, rank 0, position 3 (I1+W0): the format has no cells for a W in hand: write the "
        "schedule without, a run places it again");
  }
}

}  // namespace
}  // namespace braid::schedule
