#include "braid/schedule/check_step_end.h"

#include <gtest/gtest.h>

#include "braid/schedule/check.h"
#include "braid/schedule/passes/lower.h"

namespace braid::schedule {
namespace {

std::string verdict(const Schedule& schedule) {
  try {
    check(schedule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "good";
}

Schedule mine(PipelineShape shape, StepEnd step_end, const std::vector<std::string>& rows) {
  Schedule schedule = {.name = "mine", .shape = shape, .step_end = std::move(step_end)};
  for (const std::string& row : rows) schedule.ranks.push_back(parse_actions(row));
  return schedule;
}

// One microbatch on one rank, two chunks.
std::string of_one(std::string_view row, StepEnd step_end = {}) {
  return verdict(mine({.chunks_per_rank = 2}, std::move(step_end), {std::string(row)}));
}

// Rank 0 of two ranks that hold a pair of tied stages; rank 1 does everything right.
std::string of_pair(std::string_view row, StepEnd step_end = {.tied = {{0, 1}}}) {
  return verdict(mine({.ranks = 2}, std::move(step_end),
                      {std::string(row), "F0 B0 REDUCE_TIED NORM WAIT_NORM WAIT_REDUCE_TIED UPDATE"}));
}

constexpr const char* kStart = "F0 F0c1 B0c1 B0 ";
std::string after_start(const std::string& row) { return kStart + row; }

TEST(CheckStepEnd, AcceptsWhateverOrderDataAllows) {
  EXPECT_EQ(of_one(after_start("NORM WAIT_NORM UPDATE UPDATEc1")), "good");
  EXPECT_EQ(of_one(after_start("NORM WAIT_NORM UPDATEc1 UPDATE")), "good");
  const StepEnd reported = {.norm_use = NormUse::kReportedOnly};
  EXPECT_EQ(of_one("F0 F0c1 B0c1 UPDATEc1 B0 UPDATE NORM", reported), "good");
  EXPECT_EQ(
      of_one(after_start("REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE UPDATEc1"), {.tied = {{0, 1}}}),
      "good");
  EXPECT_EQ(of_pair("F0 B0 REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE"), "good");
}

TEST(CheckStepEndRejects, ActionsThatAreMissing) {
  EXPECT_EQ(of_one(after_start("NORM WAIT_NORM UPDATE")),
            "schedule mine, rank 0, the end: UPDATEc1 is missing");
  EXPECT_EQ(of_one(after_start("NORM")), "schedule mine, rank 0, the end: WAIT_NORM is missing");
  EXPECT_EQ(of_one(after_start("UPDATE UPDATEc1"), {.norm_use = NormUse::kReportedOnly}),
            "schedule mine, rank 0, the end: NORM is missing");
  EXPECT_EQ(of_pair("F0 B0"), "schedule mine, rank 0, the end: REDUCE_TIED is missing")
      << "either all ranks end the step or none";
  EXPECT_EQ(verdict(mine({.ranks = 3}, {.tied = {{0, 1}}},
                         {"F0 B0 REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE",
                          "F0 B0 REDUCE_TIED NORM WAIT_NORM WAIT_REDUCE_TIED UPDATE", "F0 B0"})),
            "schedule mine, rank 2, the end: NORM is missing");
}

TEST(CheckStepEndRejects, ActionsThatAreThereTwice) {
  EXPECT_EQ(of_one(after_start("NORM NORM")), "schedule mine, rank 0, position 5 (NORM): is there twice");
  EXPECT_EQ(of_one(after_start("NORM WAIT_NORM WAIT_NORM")),
            "schedule mine, rank 0, position 6 (WAIT_NORM): is there twice");
  EXPECT_EQ(of_one(after_start("NORM WAIT_NORM UPDATEc1 UPDATE UPDATEc1")),
            "schedule mine, rank 0, position 8 (UPDATEc1): is there twice");
  EXPECT_EQ(of_pair("F0 B0 REDUCE_TIED REDUCE_TIED"),
            "schedule mine, rank 0, position 3 (REDUCE_TIED): is there twice");
  EXPECT_EQ(of_pair("F0 B0 REDUCE_TIED WAIT_REDUCE_TIED WAIT_REDUCE_TIED"),
            "schedule mine, rank 0, position 4 (WAIT_REDUCE_TIED): is there twice");
}

TEST(CheckStepEndRejects, WhatComesBeforeItsWeightGradients) {
  EXPECT_EQ(
      of_one("F0 F0c1 B0c1 I0 NORM W0"),
      "schedule mine, rank 0, position 4 (NORM): needs all weight gradients of chunk 0 before it, but W0 "
      "comes at position 5");
  EXPECT_EQ(
      of_one("F0 F0c1 I0c1 B0 UPDATEc1 W0c1 NORM", {.norm_use = NormUse::kReportedOnly}),
      "schedule mine, rank 0, position 4 (UPDATEc1): needs all weight gradients of chunk 1 before it, but "
      "W0c1 comes at position 5");
  EXPECT_EQ(
      of_pair("F0 I0 REDUCE_TIED W0"),
      "schedule mine, rank 0, position 2 (REDUCE_TIED): needs all weight gradients of chunk 0 before it, "
      "but W0 comes at position 3");
  EXPECT_EQ(
      of_one("F0 F0c1 I0c1 B0 REDUCE_TIED W0c1", {.tied = {{0, 1}}}),
      "schedule mine, rank 0, position 4 (REDUCE_TIED): needs all weight gradients of chunk 1 before it, "
      "but W0c1 comes at position 5")
      << "both stages are here";
}

TEST(CheckStepEndRejects, GradientsMadeInForwardsThatAreNotComplete) {
  const auto of = [](const std::string& row) {
    return verdict(mine({.ranks = 2, .microbatches = 2},
                        {.tied = {{.first = 0, .last = 1, .last_made_in_forward = true}}},
                        {"F0 F1 B0 B1 REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE", row}));
  };
  EXPECT_EQ(of("F0 F1 REDUCE_TIED B0 B1 NORM WAIT_NORM WAIT_REDUCE_TIED UPDATE"), "good");
  EXPECT_EQ(
      of("F0 B0 REDUCE_TIED F1 B1"),
      "schedule mine, rank 1, position 2 (REDUCE_TIED): needs all forwards of chunk 0 before it, but F1 "
      "comes at position 3");
}

TEST(CheckStepEndRejects, ReductionsOfStagesThatAreNotTied) {
  constexpr std::string_view kRule =
      " has nothing to reduce: it is tied to no other stage, or to an earlier one of this rank";
  EXPECT_EQ(of_one(after_start("REDUCE_TIED")),
            cat("schedule mine, rank 0, position 4 (REDUCE_TIED): stage 0", kRule));
  EXPECT_EQ(of_one(after_start("REDUCE_TIEDc1"), {.tied = {{0, 1}}}),
            cat("schedule mine, rank 0, position 4 (REDUCE_TIEDc1): stage 1", kRule));
}

TEST(CheckStepEndRejects, WaitsForWhatHasNotStarted) {
  EXPECT_EQ(
      of_pair("F0 B0 WAIT_REDUCE_TIED"),
      "schedule mine, rank 0, position 2 (WAIT_REDUCE_TIED): waits for what has not started: REDUCE_TIED "
      "must come before it");
  EXPECT_EQ(of_one(after_start("WAIT_NORM")),
            "schedule mine, rank 0, position 4 (WAIT_NORM): needs NORM before it");
}

TEST(CheckStepEndRejects, UsesOfSumsThatAreNotThereYet) {
  EXPECT_EQ(of_pair("F0 B0 REDUCE_TIED NORM"),
            "schedule mine, rank 0, position 3 (NORM): needs WAIT_REDUCE_TIED before it");
  EXPECT_EQ(of_pair("F0 B0 REDUCE_TIED UPDATE"),
            "schedule mine, rank 0, position 3 (UPDATE): needs WAIT_REDUCE_TIED before it");
  EXPECT_EQ(of_one(after_start("NORM UPDATE")),
            "schedule mine, rank 0, position 5 (UPDATE): needs WAIT_NORM before it");
  EXPECT_EQ(
      of_one(after_start("REDUCE_TIED UPDATEc1"), {.tied = {{0, 1}}, .norm_use = NormUse::kReportedOnly}),
      "schedule mine, rank 0, position 5 (UPDATEc1): needs WAIT_REDUCE_TIED before it");
}

TEST(CheckStepEndRejects, WaitsForANormThatIsOnlyReported) {
  EXPECT_EQ(
      of_one(after_start("NORM WAIT_NORM UPDATE UPDATEc1"), {.norm_use = NormUse::kReportedOnly}),
      "schedule mine, rank 0, position 5 (WAIT_NORM): the norm does not scale the updates: nothing may wait "
      "for it");
}

TEST(CheckStepEndRejects, MessagesAfterAReduction) {
  const Schedule schedule = mine({.ranks = 2}, {.tied = {{0, 1}}},
                                 {"F0 SEND_F0 RECV_B0 B0 REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE",
                                  "RECV_F0 F0 B0 REDUCE_TIED SEND_B0"});
  EXPECT_EQ(
      verdict(schedule),
      "schedule mine, rank 1, position 4 (SEND_B0): messages must come before REDUCE_TIED, which uses the "
      "same connections: they are matched by order alone");
}

TEST(CheckStepEndRejects, ReductionsInAnotherOrder) {
  EXPECT_EQ(
      verdict(mine({.ranks = 2, .chunks_per_rank = 2}, {.tied = {{0, 3}, {1, 2}}},
                   {"F0 F0c1 B0c1 B0 REDUCE_TIEDc1", "F0 F0c1 B0c1 B0"})),
      "schedule mine, rank 0, position 4 (REDUCE_TIEDc1): all ranks reduce tied stages in the same order: "
      "REDUCE_TIED must come before it");
}

// Rank 1 starts its half only once it has the norm, to which rank 0 adds its own after that half.
TEST(CheckStepEndRejects, RanksThatWaitForOneAnotherForever) {
  EXPECT_EQ(
      verdict(mine({.ranks = 2}, {.tied = {{0, 1}}},
                   {"F0 B0 REDUCE_TIED WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE",
                    "F0 B0 NORM WAIT_NORM REDUCE_TIED WAIT_REDUCE_TIED UPDATE"})),
      "schedule mine, rank 0, position 3 (WAIT_REDUCE_TIED): deadlock: it needs the other tied stage's "
      "REDUCE_TIED, so rank 0 waits for rank 1; rank 1, position 3 (WAIT_NORM) needs the NORM of every rank, "
      "so rank 1 waits for rank 0");
}

TEST(ValidateStepEnd, TiedStagesExistAndAreTiedOnce) {
  const auto of = [](std::vector<TiedStages> tied) { return of_pair("F0 B0", {.tied = std::move(tied)}); };
  const std::string cannot = "cannot be tied: give two that exist in ascending order";
  EXPECT_EQ(of({{0, 2}}), "schedule mine: stages 0 and 2 of 2 " + cannot);
  EXPECT_EQ(of({{1, 0}}), "schedule mine: stages 1 and 0 of 2 " + cannot);
  EXPECT_EQ(of({{-1, 0}}), "schedule mine: stages -1 and 0 of 2 " + cannot);
  EXPECT_EQ(of({{0, 1}, {1, 1}}), "schedule mine: stage 1 is tied twice");
}

}  // namespace
}  // namespace braid::schedule
