// A rank that is killed, stopped or held up in the middle of a step ends all others, with a message that
// says who and what. Four cases; all kinds of actions are in faults_slow_test.cpp.
#include <gtest/gtest.h>

#include "braid/schedule/generators/generate.h"
#include "braid/train/faults_test_support.h"

namespace braid::train {
namespace {

using schedule::Op;
using schedule::ReceivePosting;

TEST(Faults, EndEveryRankWithAMessage) {
  const schedule::Schedule straight = schedule::generate("ZBH1", {.ranks = 3, .microbatches = 4});
  const schedule::Schedule folded =
      schedule::generate("ZBVPP", {.ranks = 3, .chunks_per_rank = 2, .microbatches = 4});
  expect_all_end({
      {.compute = straight, .fault = Fault::kKill, .victim = 1, .op = Op::kBackwardInput},
      {.compute = folded,
       .receives = ReceivePosting::kEarly,
       .message_numel = 1 << 20,
       .fault = Fault::kKill,
       .victim = 2,
       .op = Op::kSendForward,
       .midway = true},
      {.compute = straight, .fault = Fault::kStop, .victim = 0, .op = Op::kRecvBackward, .midway = true},
      {.compute = folded,
       .receives = ReceivePosting::kEarly,
       .fault = Fault::kSleep,
       .victim = 2,
       .op = Op::kForward},
  });
}

}  // namespace
}  // namespace braid::train
