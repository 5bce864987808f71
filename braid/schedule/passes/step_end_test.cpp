#include "braid/schedule/passes/step_end.h"

#include <gtest/gtest.h>

#include "braid/schedule/passes/lower.h"

namespace braid::schedule {
namespace {

// The lists from the first action of the step's end on, one line per rank.
std::string ends(const Schedule& lowered) {
  std::string text;
  for (const std::vector<Action>& list : lowered.ranks) {
    size_t first = 0;
    while (first < list.size() && !is_step_end(list[first].op)) ++first;
    text += to_string(std::span(list).subspan(first)) + "\n";
  }
  return text;
}

// Two chunks per rank of two ranks: stage 0 and 2 are on rank 0, 1 and 3 on rank 1.
const Schedule kLoopedPair = {
    .name = "looped",
    .shape = {.ranks = 2, .chunks_per_rank = 2, .microbatches = 1},
    .ranks = {parse_actions("F0 F0c1 B0c1 I0 W0"), parse_actions("F0 F0c1 B0c1 I0 W0")}};
// The same in a V: stages 0 and 3 are on rank 0.
const Schedule kVPair = {
    .name = "V",
    .shape = {.ranks = 2, .chunks_per_rank = 2, .microbatches = 1},
    .placement = Placement::kV,
    .ranks = {parse_actions("F0 F0c1 I0c1 W0c1 I0 W0"), parse_actions("F0 F0c1 B0c1 I0 W0")}};

Schedule lowered(const Schedule& compute, std::vector<TiedStages> tied, NormUse norm_use) {
  return lower(compute, {.step_end = {.tied = std::move(tied), .norm_use = norm_use}});
}

TEST(PlaceStepEnd, WithoutTiedStagesTheNormComesFirst) {
  EXPECT_EQ(ends(lowered(kLoopedPair, {}, NormUse::kScalesUpdate)),
            "NORM WAIT_NORM UPDATE UPDATEc1\n"
            "NORM WAIT_NORM UPDATE UPDATEc1\n");
}

// The rank of the last stage does not wait for the sum before its norm, where the weight does not count.
TEST(PlaceStepEnd, TiedStagesOnTwoRanksAreReducedBeforeTheNormThatCountsThem) {
  EXPECT_EQ(ends(lowered(kLoopedPair, {{0, 3}}, NormUse::kScalesUpdate)),
            "REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE UPDATEc1\n"
            "REDUCE_TIEDc1 W0 WAIT_SEND_B0 NORM WAIT_NORM UPDATE WAIT_REDUCE_TIEDc1 UPDATEc1\n");
}

TEST(PlaceStepEnd, AGradientMadeInForwardIsReducedBeforeItsWeightGradients) {
  const Schedule split = {.name = "split",
                          .shape = {.ranks = 2},
                          .ranks = {parse_actions("F0 I0 W0"), parse_actions("F0 I0 W0")}};
  const auto of = [&](bool in_forward) {
    return ends(lowered(split, {{0, 1, in_forward}}, NormUse::kReportedOnly));
  };
  const std::string first = "REDUCE_TIED WAIT_REDUCE_TIED NORM UPDATE\n";
  EXPECT_EQ(of(true), first + "REDUCE_TIED W0 WAIT_SEND_B0 NORM WAIT_REDUCE_TIED UPDATE\n");
  EXPECT_EQ(of(false), first + "REDUCE_TIED WAIT_SEND_B0 NORM WAIT_REDUCE_TIED UPDATE\n");
}

TEST(PlaceStepEnd, TiedStagesOnOneRankAreReducedAfterBothAtTheFirst) {
  EXPECT_EQ(ends(lowered(kVPair, {{0, 3}}, NormUse::kScalesUpdate)),
            "REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE UPDATEc1\n"
            "NORM WAIT_NORM UPDATE UPDATEc1\n");
  const Schedule one = {.name = "one", .shape = {}, .ranks = {parse_actions("F0 B0")}};
  EXPECT_EQ(ends(lowered(one, {{0, 0}}, NormUse::kScalesUpdate)),
            "REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE\n");
}

TEST(PlaceStepEnd, ChunksThatAreCompleteAreUpdatedEarlyIfTheNormIsOnlyReported) {
  EXPECT_EQ(ends(lowered(kLoopedPair, {}, NormUse::kReportedOnly)),
            "UPDATEc1 RECV_B0 I0 WAIT_SEND_B0c1 W0 NORM UPDATE\n"
            "UPDATEc1 W0 WAIT_SEND_B0 NORM UPDATE\n");
  EXPECT_EQ(ends(lowered(kLoopedPair, {{0, 3}}, NormUse::kReportedOnly)),
            "REDUCE_TIED UPDATEc1 WAIT_REDUCE_TIED NORM UPDATE\n"
            "REDUCE_TIEDc1 W0 WAIT_SEND_B0 NORM UPDATE WAIT_REDUCE_TIEDc1 UPDATEc1\n");
}

TEST(PlaceStepEnd, PairsGoInTheirOrderEverywhere) {
  EXPECT_EQ(ends(lowered(kLoopedPair, {{0, 3}, {1, 2}}, NormUse::kScalesUpdate)),
            "REDUCE_TIED REDUCE_TIEDc1 WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE WAIT_REDUCE_TIEDc1 UPDATEc1\n"
            "REDUCE_TIEDc1 W0 REDUCE_TIED WAIT_REDUCE_TIED WAIT_SEND_B0 NORM WAIT_NORM UPDATE "
            "WAIT_REDUCE_TIEDc1 UPDATEc1\n");
}

TEST(PlaceStepEnd, LeavesAnEndThatIsThereAsItIs) {
  Schedule mine = {
      .name = "mine",
      .shape = {.ranks = 2, .microbatches = 1},
      .ranks = {parse_actions("F0 B0 NORM WAIT_NORM UPDATE"), parse_actions("F0 B0 NORM WAIT_NORM UPDATE")}};
  EXPECT_EQ(place_step_end(mine), mine);
}

}  // namespace
}  // namespace braid::schedule
