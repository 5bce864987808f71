#include "braid/schedule/check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

// A schedule called "mine" with a row of text per rank.
Schedule mine(int32_t microbatches, const std::vector<std::string>& rows, int32_t chunks = 1,
              Placement placement = Placement::kLooped) {
  Schedule schedule = {.name = "mine",
                       .shape = {.ranks = static_cast<int32_t>(rows.size()),
                                 .chunks_per_rank = chunks,
                                 .microbatches = microbatches},
                       .placement = placement};
  for (const std::string& row : rows) schedule.ranks.push_back(parse_actions(row));
  return schedule;
}

std::string verdict(const Schedule& schedule) {
  try {
    check(schedule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "good";
}

TEST(Check, ReportsWhatAGoodScheduleCosts) {
  const CheckReport report =
      check(mine(3, {"F0 F1 SEND_F0 SEND_F1 RECV_B0 B0 WAIT_SEND_F0 F2 RECV_B1 SEND_F2 B1 "
                     "WAIT_SEND_F1 RECV_B2 B2 WAIT_SEND_F2 NORM WAIT_NORM UPDATE",
                     "RECV_F0 F0 RECV_F1 B0 SEND_B0 F1 RECV_F2 WAIT_SEND_B0 B1 SEND_B1 F2 "
                     "B2 SEND_B2 WAIT_SEND_B1 WAIT_SEND_B2 NORM WAIT_NORM UPDATE"}));
  EXPECT_EQ(report.peak_live_activations, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(report.peak_outstanding_sends, (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(report.messages, 6);
}

TEST(Check, ActivationsLiveUntilTheirWeightGradient) {
  const CheckReport report = check(mine(3, {"F0 F1 I0 F2 I1 W0 I2 W1 W2"}));
  EXPECT_EQ(report.peak_live_activations, (std::vector<int32_t>{3}));
  EXPECT_EQ(report.messages, 0);
}

TEST(Check, NeighbouringStagesOnOneRankNeedNoMessage) {
  const std::vector<std::string> compute = {"F0 F0c1 B0c1 B0", "F0 F0c1 B0c1 B0"};
  EXPECT_EQ(check(mine(1, compute, 2, Placement::kV)).messages, 4);
  EXPECT_EQ(verdict(mine(1,
                         {"F0 SEND_F0 RECV_F0c1 F0c1 B0c1 SEND_B0c1 RECV_B0 B0",
                          "RECV_F0 F0 F0c1 SEND_F0c1 RECV_B0c1 B0c1 B0 SEND_B0"},
                         2, Placement::kV)),
            "good");
  EXPECT_EQ(verdict(mine(1, {"F0", "F0 SEND_F0"}, 2, Placement::kV)),
            "schedule mine, rank 0, the end: B0 (or I and W) is missing");
  EXPECT_EQ(
      verdict(mine(1, {"F0 F0c1 B0c1 B0", "F0 SEND_F0 F0c1 B0c1 B0"}, 2, Placement::kV)),
      "schedule mine, rank 1, position 1 (SEND_F0): both stages are on this rank: there is nothing to send");
}

TEST(CheckRejects, ComputeThatIsMissingDoubledOrOutOfOrder) {
  EXPECT_EQ(verdict(mine(2, {"F0 B0 F1"})), "schedule mine, rank 0, the end: B1 (or I and W) is missing");
  EXPECT_EQ(verdict(mine(2, {"F0 B0"})), "schedule mine, rank 0, the end: F1 is missing");
  EXPECT_EQ(verdict(mine(1, {"F0 I0"})), "schedule mine, rank 0, the end: W0 is missing");
  EXPECT_EQ(verdict(mine(1, {"F0 F0 B0"})),
            "schedule mine, rank 0, position 1 (F0): this forward has run before");
  EXPECT_EQ(verdict(mine(1, {"F0 B0 B0"})),
            "schedule mine, rank 0, position 2 (B0): the backward of this microbatch has run before");
  EXPECT_EQ(verdict(mine(1, {"F0 I0 B0"})),
            "schedule mine, rank 0, position 2 (B0): the backward of this microbatch has run before");
  EXPECT_EQ(
      verdict(mine(1, {"F0 B0 W0"})),
      "schedule mine, rank 0, position 2 (W0): the weight gradients of this microbatch were made before");
  EXPECT_EQ(verdict(mine(1, {"B0 F0"})),
            "schedule mine, rank 0, position 0 (B0): a backward needs its forward before it");
  EXPECT_EQ(verdict(mine(1, {"F0 W0 I0"})),
            "schedule mine, rank 0, position 1 (W0): W needs the I of its microbatch before it");
}

TEST(CheckRejects, WeightGradientsThatWouldAddUpInAnotherOrder) {
  const std::string reason =
      ": weight gradients must add up in ascending order of microbatches, the next is 0 (another order would "
      "change "
      "the rounding of the sums)";
  EXPECT_EQ(verdict(mine(2, {"F0 F1 I0 I1 W1 W0"})), "schedule mine, rank 0, position 4 (W1)" + reason);
  EXPECT_EQ(verdict(mine(2, {"F0 F1 B1 B0"})), "schedule mine, rank 0, position 2 (B1)" + reason);
  EXPECT_EQ(verdict(mine(2, {"F0 F1 I1 I0 W0 W1"})), "good") << "the order of input gradients is free";
}

TEST(CheckRejects, LossesThatWouldAddUpInAnotherOrder) {
  EXPECT_EQ(
      verdict(mine(2, {"F0 F1 B0 B1", "F1 F0 B0 B1"})),
      "schedule mine, rank 1, position 0 (F1): the last stage's forwards must come in ascending order of "
      "microbatches, the next is 0 (the loss is made there, and with it gradients that add up)");
  EXPECT_EQ(verdict(mine(2, {"F1 F0 B0 B1", "F0 F1 B0 B1"})), "good") << "elsewhere it is free";
}

// Each row of a good pair, with one thing wrong.
TEST(CheckRejects, MessagesThatDoNotPairUp) {
  const std::string good0 = "F0 SEND_F0 RECV_B0 B0 WAIT_SEND_F0";
  const std::string good1 = "RECV_F0 F0 B0 SEND_B0 WAIT_SEND_B0";
  ASSERT_EQ(verdict(mine(1, {good0, good1})), "good");
  EXPECT_EQ(verdict(mine(1, {"F0 RECV_B0 B0", good1})),
            "schedule mine, rank 0, position 0 (F0): its result is never sent: SEND_F0 is missing");
  EXPECT_EQ(verdict(mine(1, {good0, "F0 B0 SEND_B0 WAIT_SEND_B0"})),
            "schedule mine, rank 1, position 0 (F0): needs RECV_F0 before it");
  EXPECT_EQ(verdict(mine(1, {good0, "F0 RECV_F0 B0 SEND_B0 WAIT_SEND_B0"})),
            "schedule mine, rank 1, position 0 (F0): needs RECV_F0 before it");
  EXPECT_EQ(verdict(mine(1, {"SEND_F0 F0 RECV_B0 B0 WAIT_SEND_F0", good1})),
            "schedule mine, rank 0, position 0 (SEND_F0): sends what is not made yet");
  EXPECT_EQ(verdict(mine(1, {"F0 SEND_F0 SEND_F0 RECV_B0 B0 WAIT_SEND_F0", good1})),
            "schedule mine, rank 0, position 2 (SEND_F0): is there twice");
  EXPECT_EQ(verdict(mine(1, {good0, "RECV_F0 RECV_F0 F0 B0 SEND_B0 WAIT_SEND_B0"})),
            "schedule mine, rank 1, position 1 (RECV_F0): is there twice");
  EXPECT_EQ(verdict(mine(1, {"RECV_F0 F0 SEND_F0 RECV_B0 B0 WAIT_SEND_F0", good1})),
            "schedule mine, rank 0, position 0 (RECV_F0): no stage stands on the other side");
  EXPECT_EQ(verdict(mine(1, {good0, good1 + " WAIT_SEND_B0"})),
            "schedule mine, rank 1, position 5 (WAIT_SEND_B0): is there twice");
  EXPECT_EQ(verdict(mine(1, {"F0 WAIT_SEND_F0 SEND_F0 RECV_B0 B0", good1})),
            "schedule mine, rank 0, position 1 (WAIT_SEND_F0): waits for a send that has not started");
  EXPECT_EQ(
      verdict(mine(1, {"F0 SEND_F0 RECV_B0 B0", good1})),
      "schedule mine, rank 0, position 1 (SEND_F0): no one waits for this send: WAIT_SEND_F0 is missing");
}

TEST(CheckRejects, ReceivesInAnotherOrderThanTheSends) {
  EXPECT_EQ(
      verdict(mine(
          2, {"F0 SEND_F0 F1 SEND_F1 RECV_B0 RECV_B1 B0 B1", "RECV_F1 RECV_F0 F0 F1 B0 SEND_B0 B1 SEND_B1"})),
      "schedule mine, rank 1, position 0 (RECV_F1): rank 0 sends in another order: RECV_F0 must come first");
}

// Stages 0 and 2 on rank 0, 1 and 3 on rank 1: activations and gradients share the way from rank 0 to rank 1.
TEST(CheckRejects, AGradientReceivedBeforeAnActivationThatIsSentFirst) {
  const std::string sender = "F0 SEND_F0 RECV_F0c1 F0c1 SEND_F0c1 RECV_B0c1 B0c1 SEND_B0c1 RECV_B0 B0";
  EXPECT_EQ(
      verdict(mine(1, {sender, "RECV_F0 F0 SEND_F0 RECV_F0c1 RECV_B0 F0c1 B0c1 SEND_B0c1 B0 SEND_B0"}, 2)),
      "good");
  EXPECT_EQ(
      verdict(mine(1, {sender, "RECV_F0 F0 SEND_F0 RECV_B0 RECV_F0c1 F0c1 B0c1 SEND_B0c1 B0 SEND_B0"}, 2)),
      "schedule mine, rank 1, position 3 (RECV_B0): rank 0 sends in another order: RECV_F0c1 must come "
      "first");
}

TEST(CheckRejects, SendsThatWouldBlockOneAnother) {
  EXPECT_EQ(verdict(mine(2, {"F0 SEND_F0 F1 SEND_F1 RECV_B0 B0 RECV_B1 B1",
                             "RECV_F0 F0 B0 SEND_B0 RECV_F1 F1 B1 SEND_B1"})),
            "schedule mine, rank 0, position 3 (SEND_F1): deadlock: it blocks until its receive is posted, "
            "so rank 0 "
            "waits for rank 1; rank 1, position 3 (SEND_B0) blocks until its receive is posted, so rank 1 "
            "waits for "
            "rank 0");
}

TEST(CheckRejects, OrdersThatNoCommunicationCanSave) {
  EXPECT_EQ(verdict(mine(2, {"F0 B0 F1 B1", "F1 F0 B0 B1", "F0 F1 B0 B1"})),
            "schedule mine, rank 0, position 1 (B0): deadlock: it needs what has not been sent, so rank 0 "
            "waits for rank "
            "1; rank 1, position 0 (F1) needs what has not been sent, so rank 1 waits for rank 0");
  EXPECT_EQ(
      verdict(mine(1, {"F0c1 F0 B0c1 B0"}, 2)),
      "schedule mine, rank 0, position 0 (F0c1): deadlock: it needs what this same rank makes only later");
}

TEST(CheckRejects, NamesOnlyTheFirstRanksOfALongCycle) {
  std::vector<std::string> rows(12, "F1 F0 B0 B1");
  rows[0] = "F0 B0 F1 B1";
  rows[11] = "F0 F1 B0 B1";
  const std::string text = verdict(mine(2, rows));
  EXPECT_TRUE(
      text.starts_with("schedule mine, rank 0, position 1 (B0): deadlock: it needs what has not been sent"));
  EXPECT_LE(std::count(text.begin(), text.end(), ';'), 8);
}

}  // namespace
}  // namespace braid::schedule
