#include "braid/schedule/passes/communication.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/early_receives.h"
#include "braid/schedule/passes/send_waits.h"
#include "braid/schedule/passes/step_end.h"

namespace braid::schedule {
namespace {

Schedule one_f_one_b_of(int32_t ranks, int32_t microbatches) {
  return generate("1F1B", {.ranks = ranks, .microbatches = microbatches});
}

template <typename Function>
std::string rejection(Function&& function) {
  try {
    function();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

// The lower rank posts its receive before it sends where both would send first.
TEST(InsertCommunication, GoldenOneFOneB) {
  EXPECT_EQ(to_string(insert_communication(one_f_one_b_of(3, 3))),
            "1F1B\n"
            "rank 0: F0 SEND_F0 F1 SEND_F1 F2 RECV_B0 SEND_F2 B0 RECV_B1 B1 RECV_B2 B2\n"
            "rank 1: RECV_F0 F0 SEND_F0 RECV_F1 F1 RECV_B0 SEND_F1 B0 SEND_B0 RECV_F2 F2 RECV_B1 SEND_F2 B1 "
            "SEND_B1 "
            "RECV_B2 B2 SEND_B2\n"
            "rank 2: RECV_F0 F0 B0 SEND_B0 RECV_F1 F1 B1 SEND_B1 RECV_F2 F2 B2 SEND_B2\n");
}

TEST(InsertCommunication, OneRankSendsNothing) {
  EXPECT_EQ(insert_communication(one_f_one_b_of(1, 5)), one_f_one_b_of(1, 5));
}

TEST(InsertCommunication, StagesOnOneRankHandOverWithoutAMessage) {
  const Schedule v = {
      .name = "V",
      .shape = {.ranks = 2, .chunks_per_rank = 2, .microbatches = 1},
      .placement = Placement::kV,
      .ranks = {parse_actions("F0 F0c1 I0c1 W0c1 I0 W0"), parse_actions("F0 F0c1 I0c1 I0 W0c1 W0")}};
  EXPECT_EQ(to_string(insert_communication(v)),
            "V\n"
            "rank 0: F0 SEND_F0 RECV_F0c1 F0c1 I0c1 SEND_B0c1 W0c1 RECV_B0 I0 W0\n"
            "rank 1: RECV_F0 F0 F0c1 SEND_F0c1 RECV_B0c1 I0c1 I0 SEND_B0 W0c1 W0\n");
}

// The consumer takes microbatches in another order than the producer makes them: receives follow the
// producer.
TEST(InsertCommunication, ReceivesFollowTheSendersOrder) {
  const Schedule crossed = {
      .name = "crossed",
      .shape = {.ranks = 3, .microbatches = 2},
      .ranks = {parse_actions("F0 F1 B0 B1"), parse_actions("F1 F0 B0 B1"), parse_actions("F0 F1 B0 B1")}};
  EXPECT_EQ(to_string(insert_communication(crossed)),
            "crossed\n"
            "rank 0: F0 SEND_F0 F1 SEND_F1 RECV_B0 B0 RECV_B1 B1\n"
            "rank 1: RECV_F0 RECV_F1 F1 SEND_F1 F0 SEND_F0 RECV_B0 B0 SEND_B0 RECV_B1 B1 SEND_B1\n"
            "rank 2: RECV_F1 RECV_F0 F0 F1 B0 SEND_B0 B1 SEND_B1\n");
}

TEST(InsertCommunication, RejectsWhatItCannotComplete) {
  const Schedule done = insert_communication(one_f_one_b_of(2, 2));
  EXPECT_EQ(rejection([&] { insert_communication(done); }), "schedule 1F1B has messages already");
  Schedule broken = one_f_one_b_of(2, 2);
  broken.ranks[1].pop_back();
  EXPECT_EQ(rejection([&] { insert_communication(broken); }),
            "schedule 1F1B, rank 1, the end: B1 (or I and W) is missing");
}

TEST(PostReceivesEarly, GoldenOneFOneB) {
  EXPECT_EQ(to_string(post_receives_early(insert_communication(one_f_one_b_of(3, 3)))),
            "1F1B\n"
            "rank 0: F0 SEND_F0 F1 SEND_F1 RECV_B0 F2 SEND_F2 RECV_B1 B0 RECV_B2 B1 B2\n"
            "rank 1: RECV_F0 RECV_F1 F0 SEND_F0 RECV_B0 F1 SEND_F1 RECV_F2 B0 SEND_B0 RECV_B1 F2 SEND_F2 "
            "RECV_B2 B1 "
            "SEND_B1 B2 SEND_B2\n"
            "rank 2: RECV_F0 F0 RECV_F1 B0 SEND_B0 F1 RECV_F2 B1 SEND_B1 F2 B2 SEND_B2\n");
  EXPECT_EQ(post_receives_early(one_f_one_b_of(3, 3)), one_f_one_b_of(3, 3)) << "nothing to move";
}

TEST(InsertSendWaits, GoldenOneFOneB) {
  EXPECT_EQ(
      to_string(insert_send_waits(place_step_end(insert_communication(one_f_one_b_of(2, 4))))),
      "1F1B\n"
      "rank 0: F0 SEND_F0 F1 RECV_B0 SEND_F1 B0 WAIT_SEND_F0 F2 RECV_B1 SEND_F2 B1 WAIT_SEND_F1 F3 RECV_B2 "
      "SEND_F3 B2 RECV_B3 WAIT_SEND_F2 B3 WAIT_SEND_F3 NORM WAIT_NORM UPDATE\n"
      "rank 1: RECV_F0 F0 B0 SEND_B0 RECV_F1 F1 B1 SEND_B1 RECV_F2 F2 WAIT_SEND_B0 B2 SEND_B2 RECV_F3 F3 "
      "WAIT_SEND_B1 B3 SEND_B3 WAIT_SEND_B2 WAIT_SEND_B3 NORM WAIT_NORM UPDATE\n");
}

TEST(InsertSendWaits, RejectsWhatHasWaitsOrNoMessages) {
  EXPECT_EQ(rejection([] { insert_send_waits(one_f_one_b_of(2, 2)); }),
            "schedule 1F1B has no messages yet: insert communication first");
  const Schedule done = insert_send_waits(insert_communication(one_f_one_b_of(2, 2)));
  EXPECT_EQ(rejection([&] { insert_send_waits(done); }), "schedule 1F1B has waits already");
  EXPECT_EQ(insert_send_waits(one_f_one_b_of(1, 2)), one_f_one_b_of(1, 2));
}

}  // namespace
}  // namespace braid::schedule
