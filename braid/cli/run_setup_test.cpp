#include "braid/cli/run_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/cli/test_context.h"
#include "braid/config/pretrain_table.h"

namespace braid::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(PlaceText, SaysWhoseVariablesWereUsed) {
  EXPECT_EQ(place_text({}), "one rank: no launcher's variables are set");
  EXPECT_EQ(place_text({.rank = 5,
                        .world_size = 8,
                        .local_rank = 1,
                        .local_world_size = 4,
                        .node_rank = 1,
                        .master_addr = "n0",
                        .source = "Open MPI"}),
            "rank 5 of 8, local rank 1 of 4 on node 1, as the variables of Open MPI say; rank 0 is at n0 "
            "port 29500");
}

TEST(SettingsOf, AreTheNamesAndValuesOfTheTable) {
  EXPECT_THAT(settings_of("# Group\n# a: unset\nb: 1\n\n# Other group\nc: 0.5  # default: 1\nd: x: y\n"),
              ElementsAre(Pair("a", "unset"), Pair("b", "1"), Pair("c", "0.5"), Pair("d", "x: y")));
  config::PretrainOptions options;
  options.seed = 7;
  const auto table = config::pretrain_table();
  const auto settings = settings_of(table.print_back(options));
  EXPECT_EQ(settings.size(), table.specs().size());
  EXPECT_THAT(settings, Contains(Pair("seed", "7")));
}

TEST(IntroductionOf, ReadsFilesOnTheFirstRankOfEachMachineWhereThereAreSeveral) {
  const ScratchDirectory scratch;
  config::PretrainOptions options;
  options.input_dir = scratch.write("a.idx", "");
  scratch.write("a.bin", "");
  comm::World world = {.rank = 2, .world_size = 4, .local_rank = 0, .local_world_size = 2, .node_rank = 1};
  EXPECT_EQ(introduction_of(options, {}, world).files.size(), 2u);
  world.local_rank = 1;
  EXPECT_TRUE(introduction_of(options, {}, world).files.empty());
  world.local_world_size = 4;
  world.local_rank = 0;
  EXPECT_TRUE(introduction_of(options, {}, world).files.empty()) << "one machine agrees with itself";
}

TEST(OutputDir, IsHeldAgainstOtherRuns) {
  const ScratchDirectory scratch;
  config::PretrainOptions options;
  options.output_dir = scratch.file("new/run");
  const auto ignore = [](const std::string&) {};
  prepare_output_dir(options);
  {
    const auto lock = hold_output_dir(options, ignore);
    for (const bool overwrite : {false, true}) {
      options.overwrite_output_dir = overwrite;
      try {
        hold_output_dir(options, ignore);
        ADD_FAILURE() << "accepted";
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr("is in use: process "));
      }
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(options.output_dir));
  scratch.write("new/run/metrics.jsonl", "{}\n");
  options.overwrite_output_dir = false;
  EXPECT_THROW(prepare_output_dir(options), ConfigError);
  EXPECT_THROW(hold_output_dir(options, ignore), ConfigError) << "it has ended since the first look";
  EXPECT_FALSE(std::filesystem::exists(scratch / "new/run/run.lock"));
  options.overwrite_output_dir = true;
  EXPECT_NE(hold_output_dir(options, ignore), nullptr);
}

TEST(ComputeThreads, ComeFromTheFlagOrTheVariable) {
  const auto threads = [](std::map<std::string, std::string> environment, int64_t flag) {
    std::ostringstream out, err;
    const CommandContext context = {.environment = std::move(environment), .out = out, .err = err};
    return compute_threads(context, flag);
  };
  EXPECT_EQ(threads({}, 0), 1);
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", "3,1"}}, 0), 3);
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", "abc"}}, 2), 2);
  EXPECT_THROW(threads({{"OMP_NUM_THREADS", "abc"}}, 0), ConfigError);
  EXPECT_FALSE(too_many_threads(2, 2));
  EXPECT_THAT(too_many_threads(8, 2).value_or(""), HasSubstr("8 compute threads on 2 cores"));
}

TEST(MisspeltVariables, AreNamedWithTheRightOne) {
  std::ostringstream out, err;
  const CommandContext context = {
      .environment = {{"BRAID_RUN_SECRT", "x"}, {"BRAID_RUN_ID", "y"}, {"BRAID_WERROR", "ON"}},
      .out = out,
      .err = err};
  EXPECT_THAT(misspelt_variables(context),
              ElementsAre("BRAID_RUN_SECRT in the environment has no effect: is BRAID_RUN_SECRET meant?"));
}

}  // namespace
}  // namespace braid::cli
