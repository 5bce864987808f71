// A rank that is killed, stopped or held up at any kind of action ends all others, with a message that says
// who and what.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "braid/schedule/generators/generate.h"
#include "braid/train/faults_test_support.h"

namespace braid::train {
namespace {

using schedule::Op;
using schedule::ReceivePosting;

constexpr std::array kOps = {Op::kForward,          Op::kBackward,     Op::kBackwardInput,
                             Op::kBackwardWeight,   Op::kSendForward,  Op::kRecvForward,
                             Op::kSendBackward,     Op::kRecvBackward, Op::kWaitSendForward,
                             Op::kWaitSendBackward, Op::kNorm};

// Straight, and two V shapes that hand over within the last rank; fused and split backwards.
std::vector<schedule::Schedule> schedules() {
  return {schedule::generate("ZBH1", {.ranks = 3, .microbatches = 4}),
          schedule::generate("ZBVPP", {.ranks = 3, .chunks_per_rank = 2, .microbatches = 4}),
          schedule::generate("DualPipeV", {.ranks = 3, .chunks_per_rank = 2, .microbatches = 6})};
}

class FaultsAnywhere : public ::testing::TestWithParam<Fault> {};

// Each kind of action of each schedule with both ways to post receives. Victims, sizes of messages and first
// or middle take turns. Where ranks end by a short timeout, messages must be short too.
TEST_P(FaultsAnywhere, EndEveryRankWithAMessage) {
  const int64_t large = GetParam() == Fault::kKill ? 1 << 20 : 1 << 17;
  std::vector<FaultCase> cases;
  std::set<Op> hit;
  for (const schedule::Schedule& compute : schedules()) {
    for (const Op op : kOps) {
      const std::vector<int32_t> victims = ranks_with(compute, op);
      if (victims.empty()) continue;
      hit.insert(op);
      for (const ReceivePosting receives : {ReceivePosting::kJustInTime, ReceivePosting::kEarly}) {
        const size_t turn = cases.size();
        cases.push_back({.compute = compute,
                         .receives = receives,
                         .message_numel = turn / 2 % 2 == 0 ? 1 : large,
                         .fault = GetParam(),
                         .victim = victims[turn % victims.size()],
                         .op = op,
                         .midway = turn / 4 % 2 == 0});
      }
    }
  }
  EXPECT_EQ(hit, std::set<Op>(kOps.begin(), kOps.end())) << "a kind of action that no schedule has";
  expect_all_end(cases);
}

std::string name_of(const ::testing::TestParamInfo<Fault>& fault) {
  return fault.param == Fault::kKill ? "Kill" : fault.param == Fault::kStop ? "Stop" : "Sleep";
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultsAnywhere, ::testing::Values(Fault::kKill, Fault::kStop, Fault::kSleep),
                         name_of);

}  // namespace
}  // namespace braid::train
