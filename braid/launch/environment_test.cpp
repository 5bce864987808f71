#include "braid/launch/environment.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(got.count("BRAID_TERMINAL_FD"), 0U);
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

}  // namespace
}  // namespace braid::launch
