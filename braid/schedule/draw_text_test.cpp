#include "braid/schedule/draw_text.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"

namespace braid::schedule {
namespace {

TEST(DrawText, GoldenOneFOneB) {
  const Schedule schedule = generate("1F1B", {.ranks = 4, .microbatches = 8});
  const std::string expected =
      "1F1B: 4 ranks, 8 microbatches\n"
      "\n"
      "slot    0         5         10        15        20        25        30\n"
      "rank 0 |F0F1F2F3············[B0]F4[B1]F5[B2]F6[B3]F7[B4]··[B5]··[B6]··[B7]|\n"
      "rank 1 |··F0F1F2········[B0]F3[B1]F4[B2]F5[B3]F6[B4]F7[B5]··[B6]··[B7]····|\n"
      "rank 2 |····F0F1····[B0]F2[B1]F3[B2]F4[B3]F5[B4]F6[B5]F7[B6]··[B7]········|\n"
      "rank 3 |······F0[B0]F1[B1]F2[B2]F3[B3]F4[B4]F5[B5]F6[B6]F7[B7]············|\n"
      "\n"
      "F forward, [B] backward, · idle; the number is the microbatch\n"
      "33 slots in all; bubble 27.3% (9 of 33); peak live activations per rank: 4 3 2 1\n";
  EXPECT_EQ(draw_text(schedule, {}), expected);
  EXPECT_EQ(
      draw_text(lower(schedule, {}), {}),
      expected + "slot of the first update per rank: 33 on every rank; repeated steps take 33 slots each\n")
      << "messages are not drawn";
}

TEST(DrawText, SaysWhatTheEndOfTheStepCosts) {
  const Schedule schedule = generate("ZBH2", {.ranks = 3, .microbatches = 5});
  const auto last_line = [&](NormUse norm_use) {
    std::string text = draw_text(lower(schedule, {.step_end = {.norm_use = norm_use}}), {});
    text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  };
  EXPECT_EQ(last_line(NormUse::kScalesUpdate),
            "slot of the first update per rank: 17 on every rank; repeated steps take 17 slots each");
  EXPECT_EQ(last_line(NormUse::kReportedOnly),
            "slot of the first update per rank: 15 16 17; repeated steps take 15 slots each");
}

TEST(DrawText, WideDrawingsContinueInASecondBandAndNumbersStayApart) {
  EXPECT_EQ(draw_text(generate("FThenB", {.ranks = 1, .microbatches = 11}), {.columns = 60}),
            "FThenB: 1 rank, 11 microbatches\n"
            "\n"
            "slot    0              5              10             15\n"
            "rank 0 |F0 F1 F2 F3 F4 F5 F6 F7 F8 F9 F10[B0  ][B1  ][B2  ]|\n"
            "\n"
            "slot    17       20             25             30\n"
            "rank 0 |[B3  ][B4  ][B5  ][B6  ][B7  ][B8  ][B9  ][B10 ]|\n"
            "\n"
            "F forward, [B] backward, · idle; the number is the microbatch\n"
            "33 slots in all; bubble 0.0% (0 of 33); peak live activations per rank: 11\n");
}

TEST(DrawText, SplitBackwardsAndChunks) {
  const Schedule v = {
      .name = "V",
      .shape = {.ranks = 2, .chunks_per_rank = 2},
      .placement = Placement::kV,
      .ranks = {parse_actions("F0 F0c1 I0c1 W0c1 I0 W0"), parse_actions("F0 F0c1 I0c1 I0 W0c1 W0")}};
  EXPECT_EQ(draw_text(v, {}),
            "V: 2 ranks, 2 chunks per rank, 1 microbatch\n"
            "\n"
            "slot    0              5\n"
            "rank 0 |aF0······bF0bI0bW0···aI0aW0|\n"
            "rank 1 |···aF0bF0······bI0aI0bW0aW0|\n"
            "\n"
            "F forward, I input gradient, W weight gradient, · idle; the number is the microbatch, the small "
            "letter "
            "before it the chunk\n"
            "9 slots in all; bubble 33.3% (3 of 9); peak live activations per rank: 2 on every rank\n");
}

TEST(DrawText, ColoursOnlyAddEscapeSequences) {
  const Schedule schedule = generate("1F1B", {.ranks = 3, .microbatches = 12});
  std::string coloured = draw_text(schedule, {.colours = Colours::kAnsi});
  EXPECT_NE(coloured.find("\033[97;44mF0 F1 "), std::string::npos) << "one escape for a run of one colour";
  for (size_t at = coloured.find('\033'); at != std::string::npos; at = coloured.find('\033')) {
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  }
  EXPECT_EQ(coloured, draw_text(schedule, {}));
}

TEST(DrawTextRejects, TooFewColumnsAndTooManySlots) {
  const auto rejection = [](const PipelineShape& shape, const DrawOptions& options) -> std::string {
    try {
      draw_text(generate("1F1B", shape), options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "was accepted";
  };
  EXPECT_EQ(rejection({}, {.columns = 39}), "a drawing needs at least 40 columns, got 39");
  EXPECT_EQ(rejection({.ranks = 1000, .microbatches = 10}, {}),
            "schedule 1F1B has 1000 ranks x 3027 slots, too many to draw as text (at most 1000000): take "
            "fewer ranks or "
            "microbatches");
}

}  // namespace
}  // namespace braid::schedule
