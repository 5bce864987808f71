#include "braid/train/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "braid/base/scratch_directory.h"
#include "braid/comm/testing.h"
#include "braid/config/run_options.h"
#include "braid/report/timeline_samples.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"
#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"

namespace braid::train {
namespace {

using schedule::Seconds;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// All pipelines of the mesh run `schedule` as it is simulated.
StepProfile undisturbed_profile(const mesh::MeshShape& mesh, const schedule::Schedule& schedule,
                                const schedule::Durations& durations) {
  StepProfile profile = {.mesh = mesh, .pipelines = {}};
  const report::Timeline timeline =
      report::undisturbed(schedule, schedule::simulate(schedule, durations), Seconds(100));
  profile.pipelines.assign(static_cast<size_t>(mesh.world_size() / mesh.pp), timeline);
  return profile;
}

schedule::Durations durations_of(int32_t stages) {
  schedule::Durations durations = {
      .stages = {}, .communication = Seconds(0.125), .norm_exchange = Seconds(0.25)};
  for (int32_t stage = 0; stage < stages; ++stage) {
    durations.stages.push_back({.forward = Seconds(1 + 0.25 * stage),
                                .backward_input = Seconds(1.5),
                                .backward_weight = Seconds(0.75),
                                .update = Seconds(1)});
    durations.segments.push_back(
        {{.share = 0.25, .gather = Seconds(2), .reduce = Seconds(3), .reduce_dp = Seconds(4)},
         {.share = 0.75, .gather = Seconds(1), .reduce = Seconds(2.5), .reduce_dp = Seconds(5)}});
  }
  return durations;
}

// Stage 1 exchanges each segment once, and exchanges as long as these are waited for, but for those that
// computing or another wait hides: what is measured makes the same plan.
TEST(MeasuredDurations, OfAnUndisturbedStepMakeTheSamePlan) {
  const mesh::MeshShape mesh = {.mp = 2, .sharding = 2, .pp = 2, .dp = 2};
  for (const std::string_view mode : {"1F1B", "ZBH1", "VPP"}) {
    SCOPED_TRACE(mode);
    const int32_t chunks = mode == "VPP" ? 2 : 1;
    const schedule::Schedule compute =
        schedule::generate(mode, {.ranks = 2, .chunks_per_rank = chunks, .microbatches = 4});
    const int32_t stages = compute.shape.stages();
    const schedule::Schedule schedule =
        lower(compute, {.data = {.has_sharding = true,
                                 .has_dp = true,
                                 .sharding_stage = 1,
                                 .segments = std::vector<int32_t>(static_cast<size_t>(stages), 2)}});
    const schedule::Durations given = durations_of(stages);
    const schedule::Durations measured = measured_durations(undisturbed_profile(mesh, schedule, given));
    ASSERT_EQ(std::ssize(measured.stages), stages);
    for (size_t stage = 0; stage < measured.stages.size(); ++stage) {
      EXPECT_NEAR(measured.stages[stage].forward.count(), given.stages[stage].forward.count(), 1e-9);
      EXPECT_NEAR(measured.stages[stage].backward().count(), 2.25, 1e-9);
      EXPECT_NEAR(measured.stages[stage].update.count(), 1, 1e-9);
      EXPECT_NEAR(measured.segments[stage][0].share, 0.25, 1e-9);
      EXPECT_NEAR(measured.segments[stage][1].reduce.count(), 2.5, 1e-9) << "nothing is in flight before it";
    }
    EXPECT_NEAR(measured.norm_exchange.count(), 0.25, 1e-9);
    const schedule::Simulation expected = schedule::simulate(schedule, given);
    const schedule::Simulation planned = schedule::simulate(schedule, measured);
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
        EXPECT_NEAR(planned.ranks[rank][i].end.count(), expected.ranks[rank][i].end.count(), 1e-9)
            << location(schedule, static_cast<int32_t>(rank), i);
      }
    }
  }
}

TEST(MeasuredDurations, AnExchangeBeginsWithTheLastOfItsRanks) {
  const mesh::MeshShape mesh = {.sharding = 2};
  const schedule::Schedule schedule =
      lower(schedule::generate("1F1B", {.microbatches = 1}),
            {.data = {.has_sharding = true, .sharding_stage = 1, .segments = {1}}});
  schedule::Durations durations = {.stages = {schedule::StageTimes{}}};
  durations.segments = {{{.share = 1, .gather = Seconds(1), .reduce = Seconds(2)}}};
  StepProfile profile = undisturbed_profile(mesh, schedule, durations);
  // The second rank starts to reduce half a second later: for the first, the exchange took no longer.
  for (report::ActionRecord& record : profile.pipelines[1].ranks[0]) {
    if (record.action.op == schedule::Op::kReduce) record.begin += Seconds(0.5);
  }
  EXPECT_NEAR(measured_durations(profile).segments[0][0].reduce.count(), 1.5, 1e-9);
}

TEST(Profile, OfAllAxesHasEveryRankAndWhatIsInFlight) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  config::PretrainOptions options =
      options_of({.pp = 2, .mode = "ZBH1", .segment_broadcast_mb = 0.001}, scratch.path());
  options.tensor_parallel_degree = 2;
  options.sharding = "stage2";
  options.sharding_parallel_degree = 2;
  options.data_parallel_degree = 2;
  options.max_steps = 2;
  options.do_eval = false;
  options.skip_export = true;
  options.profile_steps = "2,2";
  std::vector<std::string> lines;
  comm::run_ranks(16, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    pretrain({.options = config::run_options(options, 16),
              .model = tiny_model(false),
              .world = world,
              .store = store,
              .reporter = {.line = [&](const std::string& line) {
                if (world.rank == 0) lines.push_back(line);
              }}});
  });
  EXPECT_THAT(lines, ::testing::Contains(::testing::StartsWith("step 2: measured step time ")));
  const auto trace = nlohmann::json::parse(read(scratch.path() / "profile/step-2.trace.json"));
  std::map<int, std::string> ranks;
  std::map<int, std::set<std::string>> lanes;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") ranks[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") lanes[event["pid"]].insert(event["args"]["name"]);
  }
  EXPECT_EQ(ranks.size(), 16u);
  EXPECT_EQ(ranks[5], "rank 5 (mp 1, sharding 0, pp 1, dp 0)");
  for (const auto& [rank, names] : lanes) {
    for (const char* name : {"compute", "communication", "sharding in flight", "dp in flight"}) {
      EXPECT_TRUE(names.contains(name)) << "rank " << rank << ": " << name;
    }
  }
  const std::string svg = read(scratch.path() / "profile/step-2.svg");
  EXPECT_THAT(svg, ::testing::HasSubstr("sharding stage 2, dp, planned above measured"));
  EXPECT_THAT(svg, ::testing::HasSubstr("REDUCE segment 0 in flight, "));
  EXPECT_THAT(read(scratch.path() / "profile/step-2.times.json"), ::testing::HasSubstr("backward_weight"));
}

}  // namespace
}  // namespace braid::train
