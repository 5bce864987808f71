#include "braid/schedule/passes/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "braid/base/text.h"
#include "braid/schedule/check.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/forward_only.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

using testing::HasSubstr;

const Schedule kOneRank = {
    .name = "one rank", .shape = {.microbatches = 2}, .ranks = {parse_actions("F0 B0 F1 I1 W1")}};

std::string lowered(const Schedule& compute, const DataAxes& data) {
  return to_string(lower(compute, {.data = data}).ranks[0]);
}

TEST(PlaceSegments, ReduceOnceAStepAsSegmentsComplete) {
  EXPECT_EQ(lowered(kOneRank, {.has_sharding = true, .segments = {2}}),
            "F0 B0 F1 I1 W1s1 REDUCEs1 W1s0 WAIT_REDUCEs1 REDUCEs0 WAIT_REDUCEs0 NORM WAIT_NORM "
            "UPDATEs0 GATHERs0 UPDATEs1 GATHERs1 WAIT_GATHERs0 WAIT_GATHERs1");
}

TEST(PlaceSegments, WithoutShardingTheSumIsOverDpAlone) {
  EXPECT_EQ(lowered(kOneRank, {.has_dp = true, .segments = {2}}),
            "F0 B0 F1 I1 W1s1 REDUCE_DPs1 W1s0 REDUCE_DPs0 WAIT_REDUCE_DPs1 WAIT_REDUCE_DPs0 NORM WAIT_NORM "
            "UPDATE");
}

TEST(PlaceSegments, DpFollowsSharding) {
  EXPECT_EQ(lowered(kOneRank, {.has_sharding = true, .has_dp = true, .sharding_stage = 0, .segments = {2}}),
            "F0 B0 F1 I1 W1s1 REDUCEs1 W1s0 WAIT_REDUCEs1 REDUCE_DPs1 REDUCEs0 WAIT_REDUCEs0 REDUCE_DPs0 "
            "WAIT_REDUCE_DPs1 WAIT_REDUCE_DPs0 NORM WAIT_NORM UPDATE");
}

TEST(PlaceSegments, ReduceEachMicrobatch) {
  EXPECT_EQ(
      lowered(kOneRank,
              {.has_sharding = true, .sharding_stage = 2, .reduces_each_microbatch = true, .segments = {1}}),
      "F0 B0s0 REDUCEs0 F1 I1 WAIT_REDUCEs0 W1s0 REDUCEs0 WAIT_REDUCEs0 NORM WAIT_NORM "
      "UPDATEs0 GATHERs0 WAIT_GATHERs0");
}

TEST(PlaceSegments, ValuesAreGatheredAheadOfTheirUseAndKeptWhereTheNextUseIsTheSame) {
  EXPECT_EQ(lowered(kOneRank, {.has_sharding = true, .sharding_stage = 3, .segments = {2}}),
            "GATHERs0 WAIT_GATHERs0 GATHERs1 F0s0 RELEASEs0 "
            "WAIT_GATHERs1 F0s1 GATHERs0 B0s1 RELEASEs1 "
            "WAIT_GATHERs0 B0s0 GATHERs1 F1s0 RELEASEs0 "
            "WAIT_GATHERs1 F1s1 GATHERs0 I1s1 RELEASEs1 "
            "WAIT_GATHERs0 I1s0 RELEASEs0 W1s1 REDUCEs1 W1s0 WAIT_REDUCEs1 REDUCEs0 WAIT_REDUCEs0 "
            "NORM WAIT_NORM UPDATE");
}

TEST(PlaceSegments, EvaluationsGatherToo) {
  const Schedule step =
      lower(kOneRank, {.data = {.has_sharding = true, .sharding_stage = 3, .segments = {2}}});
  EXPECT_EQ(to_string(forward_only(step, 1).ranks[0]),
            "GATHERs0 WAIT_GATHERs0 GATHERs1 F0s0 RELEASEs0 WAIT_GATHERs1 F0s1 RELEASEs1");
}

TEST(PlaceSegments, ChangesNothingWithoutDataAxes) {
  const Schedule step = lower(kOneRank, {});
  EXPECT_EQ(place_segments(step), step);
}

// Every combination of axes, stage, timing and numbers of segments.
std::vector<DataAxes> all_data_axes(int32_t stages) {
  std::vector<DataAxes> all;
  for (int bits = 0; bits < 64; ++bits) {
    DataAxes data = {.has_sharding = (bits & 1) != 0,
                     .has_dp = (bits & 2) != 0,
                     .sharding_stage = bits >> 4,
                     .reduces_each_microbatch = (bits & 4) != 0};
    if (!data.is_on() || (!data.has_sharding && bits > 15)) continue;
    for (int32_t stage = 0; stage < stages; ++stage)
      data.segments.push_back((bits & 8) != 0 ? 1 + stage % 3 : 1);
    all.push_back(data);
  }
  return all;
}

// lower proves each of them; this adds that nothing of the compute order is lost, and what is moved how
// often.
TEST(PlaceSegments, EveryScheduleWithEveryCombinationOfAxes) {
  for (const std::string& mode : schedule_modes()) {
    for (const int32_t p : {1, 2, 3}) {
      for (const int32_t m : {1, 4, 6}) {
        Schedule compute;
        try {
          const int32_t chunks = mode_of(mode).chunks.value_or(1);
          compute = generate(mode, {.ranks = p, .chunks_per_rank = chunks, .microbatches = m});
        } catch (const ConfigError&) {
          continue;  // the mode does not suit the shape
        }
        for (const DataAxes& data : all_data_axes(compute.shape.stages())) {
          SCOPED_TRACE(cat(mode, " p ", p, " m ", m, " stage ", data.sharding_stage, " each ",
                           data.reduces_each_microbatch));
          const Schedule step = lower(compute, {.data = data});
          const Schedule plain = lower(compute, {.step_end = step.step_end});
          for (int32_t rank = 0; rank < p; ++rank) {
            std::map<Op, int32_t> counts;
            std::vector<Action> whole;
            int32_t segments = 0;
            for (int32_t chunk = 0; chunk < compute.shape.chunks_per_rank; ++chunk) {
              segments += segments_of(step, stage_of(step, {.rank = rank, .chunk = chunk}));
            }
            bool is_reducing = false;  // since the last action that computed
            for (const Action& action : step.ranks[static_cast<size_t>(rank)]) {
              ++counts[action.op];
              is_reducing =
                  !is_compute(action.op) && (is_reducing || action.op == Op::kReduce ||
                                             action.op == Op::kReduceDp || action.op == Op::kWaitReduce);
              EXPECT_FALSE(is_send(action.op) && is_reducing)
                  << to_string(action) << " waits for a reduction, and the next rank for it";
              if (is_compute(action.op) &&
                  (action.op == Op::kForward ? includes_first_segment(action)
                                             : includes_last_segment(step, rank, action)))
                whole.push_back({action.op, action.chunk, action.microbatch});
            }
            std::vector<Action> expected = plain.ranks[static_cast<size_t>(rank)];
            std::erase_if(expected, [](const Action& action) { return !is_compute(action.op); });
            EXPECT_EQ(to_string(whole), to_string(expected));
            const int32_t reductions = data.reduces_each_microbatch ? m * segments : segments;
            EXPECT_EQ(counts[Op::kReduce], data.has_sharding ? reductions : 0);
            EXPECT_EQ(counts[Op::kReduceDp], data.has_dp ? segments : 0);
            EXPECT_EQ(counts[Op::kGather], counts[Op::kWaitGather]);
            if (data.gathers_after_update()) {
              EXPECT_EQ(counts[Op::kGather], segments);
            }
            if (data.gathers_before_use()) {
              EXPECT_EQ(counts[Op::kGather], counts[Op::kRelease]);
              EXPECT_LE(counts[Op::kGather], 2 * m * segments) << "once for F and once for B or I";
              EXPECT_GE(counts[Op::kGather], segments);
            }
          }
        }
      }
    }
  }
}

// Without one of its actions on segments no schedule is proved.
TEST(CheckSegments, EachActionIsNeeded) {
  const Schedule compute = generate("ZBH1", {.ranks = 2, .chunks_per_rank = 1, .microbatches = 3});
  for (const DataAxes& data : all_data_axes(2)) {
    const Schedule step = lower(compute, {.data = data});
    for (size_t i = 0; i < step.ranks[1].size(); ++i) {
      if (!is_segment(step.ranks[1][i].op)) continue;
      Schedule broken = step;
      broken.ranks[1].erase(broken.ranks[1].begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_THROW(check(broken), ConfigError) << to_string(step.ranks[1][i]) << " of\n"
                                               << to_string(step.ranks[1]);
    }
  }
}

std::string rejection(std::string_view list, const DataAxes& data) {
  Schedule schedule = {.name = "S", .shape = {.microbatches = 2}, .data = data};
  schedule.ranks = {parse_actions(list)};
  try {
    check(schedule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CheckSegments, SaysWhatIsMissing) {
  const DataAxes one = {.has_sharding = true, .segments = {1}};
  const std::string begin = "F0 B0 F1 B1 ";
  EXPECT_EQ(rejection(begin + "REDUCEs0 WAIT_REDUCEs0 NORM WAIT_NORM UPDATE GATHERs0 WAIT_GATHERs0", one),
            "accepted");
  EXPECT_THAT(rejection(begin + "REDUCEs0 NORM WAIT_REDUCEs0 WAIT_NORM UPDATE GATHERs0 WAIT_GATHERs0", one),
              HasSubstr("position 5 (NORM): needs WAIT_REDUCEs0 before it"));
  EXPECT_THAT(
      rejection("F0 B0 REDUCEs0 F1 B1 WAIT_REDUCEs0 NORM WAIT_NORM UPDATE GATHERs0 WAIT_GATHERs0", one),
      HasSubstr("once a step, but 1 of the microbatches come after it"));
  EXPECT_THAT(rejection(begin + "REDUCEs0 WAIT_REDUCEs0 NORM WAIT_NORM UPDATE GATHERs0", one),
              HasSubstr("the end: needs WAIT_GATHERs0 before it"));
  EXPECT_THAT(rejection(begin + "REDUCEs0 WAIT_REDUCEs0 GATHERs0 WAIT_GATHERs0 NORM WAIT_NORM UPDATE", one),
              HasSubstr("the values are complete, or are being gathered"));
  EXPECT_THAT(rejection(begin + "REDUCE_DPs0 WAIT_REDUCE_DPs0 NORM WAIT_NORM UPDATE", one),
              HasSubstr("the dp axis has one rank: there is nothing to reduce"));
  EXPECT_THAT(rejection(begin + "REDUCEs1", one), HasSubstr("there is no such action"));
  DataAxes each = {
      .has_sharding = true, .sharding_stage = 2, .reduces_each_microbatch = true, .segments = {1}};
  EXPECT_THAT(rejection(begin + "REDUCEs0 WAIT_REDUCEs0 NORM WAIT_NORM UPDATE", each),
              HasSubstr("position 3 (B1): needs REDUCEs0 before it: the gradients of each microbatch are "
                        "reduced by themselves"));
  EXPECT_THAT(rejection("F0 B0 REDUCEs0 F1 B1 WAIT_REDUCEs0", each),
              HasSubstr("writes gradients that are being reduced: WAIT_REDUCEs0 must come before it"));
  const DataAxes three = {.has_sharding = true, .sharding_stage = 3, .segments = {1}};
  EXPECT_THAT(rejection("GATHERs0 F0 B0 F1 B1", three), HasSubstr("(F0): needs WAIT_GATHERs0 before it"));
  EXPECT_THAT(rejection("GATHERs0 WAIT_GATHERs0 RELEASEs0 F0 B0 F1 B1", three),
              HasSubstr("(F0): needs GATHERs0 before it"));
}

TEST(SimulateSegments, GathersAndReductionsHideBehindComputing) {
  const DataAxes data = {.has_sharding = true, .segments = {2}};
  const Schedule step = lower(kOneRank, {.data = data});
  const auto end_of_step = [&](double reduce, double gather) {
    const SegmentTimes half = {.share = 0.5, .gather = Seconds(gather), .reduce = Seconds(reduce)};
    const Simulation simulation =
        simulate(step, {.stages = {{.update = Seconds(1)}}, .segments = {{half, half}}});
    return simulation.ranks[0].back().end.count();
  };
  EXPECT_DOUBLE_EQ(end_of_step(0, 0), 7);      // F, B, F, I, W and the update
  EXPECT_DOUBLE_EQ(end_of_step(0.5, 0), 7.5);  // the first segment's hides behind the other's W
  EXPECT_DOUBLE_EQ(end_of_step(0.5, 0.5), 8);  // and its gather behind the other's update
  EXPECT_DOUBLE_EQ(end_of_step(1.5, 0), 9.5);  // they follow one another on the axis
  EXPECT_DOUBLE_EQ(end_of_step(0, 2), 10.5);
}

}  // namespace
}  // namespace braid::schedule
