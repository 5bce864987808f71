#include "braid/schedule/action.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

TEST(Action, TextReadsBackAsTheSameAction) {
  for (int op = 0; op < kOpCount; ++op) {
    for (const int32_t chunk : {0, 1, 11}) {
      for (const int32_t microbatch : {0, 7, 2147483647}) {
        Action action = {.op = static_cast<Op>(op)};
        if (indices_of(action.op) != Indices::kNone) action.chunk = chunk;
        if (indices_of(action.op) == Indices::kMicrobatch) action.microbatch = microbatch;
        if (is_segment(action.op)) action.segment = microbatch;
        EXPECT_EQ(parse_action(to_string(action)), action) << to_string(action);
        if (!is_compute(action.op) && action.op != Op::kUpdate) continue;
        action.segment = microbatch;
        EXPECT_EQ(parse_action(to_string(action)), action) << to_string(action);
      }
    }
  }
}

TEST(Action, EveryOpIsCounted) {
  EXPECT_EQ(to_string(static_cast<Op>(kOpCount)), "UNKNOWN_OP");
  for (int op = 0; op < kOpCount; ++op) EXPECT_NE(to_string(static_cast<Op>(op)), "UNKNOWN_OP");
}

TEST(Action, GoldenTexts) {
  const std::vector<Action> actions = {{.op = Op::kForward, .chunk = 0, .microbatch = 12},
                                       {.op = Op::kBackwardInput, .chunk = 1, .microbatch = 0},
                                       {.op = Op::kWaitSendBackward, .chunk = 0, .microbatch = 3},
                                       {.op = Op::kReduceTied, .chunk = 2},
                                       {.op = Op::kWaitReduceTied},
                                       {.op = Op::kNorm},
                                       {.op = Op::kWaitNorm},
                                       {.op = Op::kUpdate},
                                       {.op = Op::kUpdate, .chunk = 1}};
  EXPECT_EQ(to_string(actions),
            "F12 I0c1 WAIT_SEND_B3 REDUCE_TIEDc2 WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE UPDATEc1");
  EXPECT_EQ(parse_actions(
                "  F12 I0c1\tWAIT_SEND_B3\nREDUCE_TIEDc2 WAIT_REDUCE_TIED NORM WAIT_NORM UPDATE UPDATEc1 "),
            actions);
  EXPECT_TRUE(parse_actions("").empty());
}

TEST(Action, OtherTextIsRejectedAndShown) {
  for (const char* text : {"", "F", "0", "F-1", "F0x", "X0", "F0c", "Fc1", "F2147483648", "UPDATE0",
                           "UPDATEc", "NORMc1", "NORM0", "F0c1c2", "2F0", "f0"}) {
    try {
      parse_action(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(
          std::string_view(error.what()).starts_with("\"" + std::string(text) + "\" is not an action"));
    }
  }
}

}  // namespace
}  // namespace braid::schedule
