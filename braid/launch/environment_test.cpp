#include "braid/launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::launch {
namespace {

TEST(RankEnvironment, NumbersRanksAcrossNodes) {
  const LaunchOptions options = {.nproc_per_node = 4, .nnodes = 3, .node_rank = 2, .master_addr = "host0"};
  const Environment got = rank_environment({{"HOME", "/root"}, {"RANK", "77"}}, options,
                                           {.local_rank = 1, .master_addr = "host0", .master_port = 29500});
  EXPECT_EQ(got, (Environment{{"HOME", "/root"},
                              {"RANK", "9"},
                              {"LOCAL_RANK", "1"},
                              {"WORLD_SIZE", "12"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"GROUP_RANK", "2"},
                              {"MASTER_ADDR", "host0"},
                              {"MASTER_PORT", "29500"},
                              {"OMP_NUM_THREADS", "1"}}));
}

TEST(RankEnvironment, DeviceSocketSecretAndTerminal) {
  const Environment got = rank_environment({{"OMP_NUM_THREADS", "3"}}, {.gpus = "6,4"},
                                           {.local_rank = 1,
                                            .master_listen_fd = 5,
                                            .run_id = "run7",
                                            .secret = "secret",
                                            .omp_num_threads = 8,
                                            .terminal_columns = 120});
  EXPECT_EQ(got.at("BRAID_LOCAL_DEVICE"), "4");
  EXPECT_EQ(got.at("BRAID_MASTER_LISTEN_FD"), "5");
  EXPECT_EQ(got.at("BRAID_RUN_ID"), "run7");
  EXPECT_EQ(got.at("BRAID_RUN_SECRET"), "secret");
  EXPECT_EQ(got.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(got.at("BRAID_PROGRESS"), "1");
  EXPECT_EQ(got.at("COLUMNS"), "120");
}

TEST(RankEnvironment, AnOuterLaunchDoesNotLeakIn) {
  const Environment outer = {{"BRAID_LOCAL_DEVICE", "1"},
                             {"BRAID_MASTER_LISTEN_FD", "9"},
                             {"BRAID_PROGRESS", "1"},
                             {"BRAID_RUN_SECRET", "outer"}};
  const Environment got = rank_environment(outer, {}, {});
  for (const auto& [name, value] : outer) EXPECT_EQ(got.count(name), 0u) << name;
}

TEST(RunId, IsFreshOnOneNodeGivenOnSeveral) {
  EXPECT_EQ(choose_run_id({}, {}).size(), 32u);
  EXPECT_NE(choose_run_id({}, {}), choose_run_id({}, {}));
  const LaunchOptions nodes = {.nnodes = 2, .node_rank = 0, .master_addr = "host0"};
  EXPECT_EQ(choose_run_id({}, nodes), "");
  EXPECT_EQ(choose_run_id({{"BRAID_RUN_ID", "shared"}}, nodes), "shared");
}

TEST(GivenThreads, AreCheckedLikeAFlag) {
  EXPECT_FALSE(given_threads({}));
  EXPECT_FALSE(given_threads({{"OMP_NUM_THREADS", " "}}));
  EXPECT_EQ(given_threads({{"OMP_NUM_THREADS", "4,2"}}), 4);
  EXPECT_THROW(given_threads({{"OMP_NUM_THREADS", "0"}}), ConfigError);
  const Environment blank =
      rank_environment({{"OMP_NUM_THREADS", ""}}, {.command = {"x"}}, {.omp_num_threads = 3});
  EXPECT_EQ(blank.at("OMP_NUM_THREADS"), "3");
}

TEST(UnusedVariables, AreNamedWithWhatIsUsedInstead) {
  const RankSetting setting = {.master_addr = "127.0.0.1", .master_port = 4567};
  const LaunchOptions options = {.secret_file = "run.secret", .command = {"x"}};
  EXPECT_TRUE(unused_variables({}, options, setting).empty());
  EXPECT_TRUE(unused_variables({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4567"}, {"RANK", ""}}, options,
                               setting)
                  .empty());
  const std::vector<std::string> notes = unused_variables(
      {{"MASTER_PORT", "29500"}, {"WORLD_SIZE", "2"}, {"BRAID_RUN_SECRET", "0123456789abcdef"}}, options,
      setting);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_THAT(notes[0],
              testing::HasSubstr("MASTER_PORT=29500 in the environment is not used: the ranks meet at port "
                                 "4567 unless --master_port"));
  EXPECT_THAT(notes[1], testing::HasSubstr("WORLD_SIZE=2 in the environment is not used"));
  EXPECT_THAT(notes[2], testing::AllOf(testing::HasSubstr("BRAID_RUN_SECRET in the environment is not used"),
                                       testing::Not(testing::HasSubstr("0123456789abcdef"))));
}

TEST(ShortageOfCores, IsSaid) {
  EXPECT_FALSE(shortage_of_cores(2, 2, 4));
  EXPECT_THAT(shortage_of_cores(8, 1, 4).value_or(""), testing::HasSubstr("8 ranks on 4 cores"));
  EXPECT_THAT(shortage_of_cores(2, 4, 4).value_or(""),
              testing::HasSubstr("2 ranks with OMP_NUM_THREADS=4 on 4 cores"));
}

}  // namespace
}  // namespace braid::launch
