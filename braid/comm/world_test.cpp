#include "braid/comm/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "braid/base/error.h"
#include "braid/comm/backend.h"

namespace braid::comm {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

World world_of(const Variables& variables) {
  return world_from_environment([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

Variables without(Variables base, const std::string& name) {
  base.erase(name);
  return base;
}

void expect_rejected(const Variables& variables, std::initializer_list<const char*> words) {
  try {
    world_of(variables);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    for (const char* word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "10.0.0.7"},
                             {"MASTER_PORT", "29400"},
                             {"TORCHELASTIC_RUN_ID", "run7"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "prterun-host-123@1"}};
// What MPICH 4.0's mpiexec (Hydra) sets.
const Variables kPmi = {{"PMI_RANK", "1"},
                        {"PMI_SIZE", "4"},
                        {"PMI_FD", "7"},
                        {"MPI_LOCALRANKID", "1"},
                        {"MPI_LOCALNRANKS", "4"}};
const Variables kMvapich = {{"MV2_COMM_WORLD_RANK", "1"},
                            {"MV2_COMM_WORLD_SIZE", "4"},
                            {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                            {"MV2_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_TASKS_PER_NODE", "3,2(x2)"},
                          {"SLURM_JOB_NODELIST", "gpu[07-09]"},
                          {"SLURM_JOB_ID", "4711"}};

TEST(World, NoVariablesAreOneRank) {
  EXPECT_EQ(world_of({}), World{});
  EXPECT_EQ(world_of({{"RANK", ""}, {"WORLD_SIZE", " "}}), World{});
  EXPECT_EQ(world_of({{"MASTER_ADDR", "elsewhere"}, {"MASTER_PORT", "1"}}), World{});
}

TEST(BackendOptions, GlooListensNoFurtherThanTheRanksAre) {
  const auto address = [](const World& world) {
    return backend_options(world, c10::Device(c10::kCPU), std::chrono::seconds(1), "").local_address;
  };
  World world = {.world_size = 4, .local_world_size = 4, .master_addr = "host.invalid"};
  EXPECT_EQ(address(world), "127.0.0.1") << "all ranks are here, so nothing is looked up";
  world.local_world_size = 2;
  EXPECT_THROW(address(world), CommError);
  world.master_addr = "127.0.0.1";
  EXPECT_EQ(address(world), "127.0.0.1");
}

TEST(World, EveryLauncherPassesTheSecretOn) {
  for (const Variables& launcher : {kTorchrun, kOpenMpi, kSlurm}) {
    EXPECT_EQ(world_of(launcher).run_secret, "");
    EXPECT_EQ(world_of(with(launcher, {{"BRAID_RUN_SECRET", " 0123456789abcdef\n"}})).run_secret,
              "0123456789abcdef");
  }
  EXPECT_EQ(world_of({{"BRAID_RUN_SECRET", "0123456789abcdef"}}), World{}) << "a single process needs none";
}

TEST(World, AShortSecretIsRejectedAndNotShown) {
  try {
    world_of(with(kTorchrun, {{"BRAID_RUN_SECRET", "hunter2"}}));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("BRAID_RUN_SECRET has 7 characters; at least 16 are needed"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("hunter2")));
  }
}

TEST(World, Torchrun) {
  const World expected = {.rank = 5,
                          .world_size = 8,
                          .local_rank = 1,
                          .local_world_size = 4,
                          .node_rank = 1,
                          .master_addr = "10.0.0.7",
                          .master_port = 29400,
                          .run_id = "run7",
                          .source = "torchrun"};
  EXPECT_EQ(world_of(kTorchrun), expected);
  EXPECT_EQ(world_of(with(without(kTorchrun, "TORCHELASTIC_RUN_ID"), {{"BRAID_RUN_ID", "x"}})).source,
            "braid launch");
  EXPECT_EQ(world_of(without(kTorchrun, "GROUP_RANK")), expected)
      << "node 1 follows from rank 5 of 4 per node";
  EXPECT_EQ(world_of(with(kTorchrun, kSlurm)), expected) << "torchrun within a Slurm step is torchrun";
  EXPECT_EQ(world_of(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"BRAID_MASTER_LISTEN_FD", "9"}}))
                .master_listen_fd,
            9);
  EXPECT_EQ(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(World, TorchrunHalfSetOrContradictory) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    SCOPED_TRACE(name);
    expect_rejected(without(kTorchrun, name), {name, "is not set"});
  }
  expect_rejected({{"LOCAL_RANK", "0"}}, {"LOCAL_RANK", "RANK", "braid launch"});
  expect_rejected(with(kTorchrun, {{"RANK", "8"}}), {"RANK", "WORLD_SIZE", "8"});
  expect_rejected(with(kTorchrun, {{"RANK", "one"}}), {"RANK", "one"});
  expect_rejected(with(kTorchrun, {{"RANK", "-1"}}), {"RANK", "-1"});
  expect_rejected(with(kTorchrun, {{"LOCAL_RANK", "4"}}), {"LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  expect_rejected(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), {"LOCAL_WORLD_SIZE", "WORLD_SIZE"});
  expect_rejected(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "0"}}), {"LOCAL_WORLD_SIZE"});
  expect_rejected(with(kTorchrun, {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE"});
  expect_rejected(with(kTorchrun, {{"MASTER_PORT", "65536"}}), {"MASTER_PORT", "65536"});
  expect_rejected(with(kTorchrun, {{"MASTER_PORT", "0"}}), {"MASTER_PORT"});
  expect_rejected(with(kTorchrun, {{"MASTER_ADDR", "0.0.0.0"}}), {"MASTER_ADDR=0.0.0.0", "all addresses"});
  expect_rejected(with(kTorchrun, {{"BRAID_MASTER_LISTEN_FD", "9"}}), {"BRAID_MASTER_LISTEN_FD", "rank 0"});
}

TEST(World, OpenMpi) {
  const World world = world_of(kOpenMpi);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.world_size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.master_addr, "127.0.0.1");
  EXPECT_EQ(world.source, "Open MPI");
  EXPECT_EQ(world.master_port, world_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}})).master_port);
  EXPECT_NE(world.master_port, world_of(with(kOpenMpi, {{"PMIX_NAMESPACE", "other"}})).master_port)
      << "two jobs on one machine do not collide";
  EXPECT_EQ(world_of(with(kOpenMpi, {{"MASTER_PORT", "29511"}})).master_port, 29511);
}

TEST(World, OpenMpiHalfSetOrOnSeveralNodes) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
    expect_rejected(without(kOpenMpi, name), {name, "is not set"});
  }
  const Variables two_nodes = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  expect_rejected(two_nodes, {"MASTER_ADDR", "mpirun"});
  EXPECT_EQ(world_of(with(two_nodes, {{"MASTER_ADDR", "n0"}})).master_addr, "n0");
}

TEST(World, EveryMpiLaunchersVariablesGiveTheSamePlace) {
  for (const Variables& launcher : {kOpenMpi, kPmi, kMvapich}) {
    const World world = world_of(launcher);
    EXPECT_EQ(world.rank, 1);
    EXPECT_EQ(world.world_size, 4);
    EXPECT_EQ(world.local_rank, 1);
    EXPECT_EQ(world.local_world_size, 4);
    EXPECT_EQ(world.master_addr, "127.0.0.1");
  }
  EXPECT_EQ(world_of(kPmi).source, "mpiexec (PMI)");
  EXPECT_EQ(world_of(kMvapich).source, "MVAPICH2");
  const Variables two_nodes = with(kPmi, {{"MPI_LOCALNRANKS", "2"}});
  expect_rejected(two_nodes, {"MASTER_ADDR", "-genv"});
  EXPECT_EQ(world_of(with(two_nodes, {{"MASTER_ADDR", "n0"}})).master_addr, "n0");
}

TEST(World, PmiHalfSet) {
  expect_rejected(without(kPmi, "PMI_RANK"), {"PMI_RANK is not set", "PMI_SIZE"});
  expect_rejected(without(kPmi, "PMI_SIZE"), {"PMI_SIZE is not set", "PMI_RANK"});
  expect_rejected(without(kPmi, "MPI_LOCALRANKID"),
                  {"MPI_LOCALRANKID is not set", "PMI_RANK", "braid launch"});
  expect_rejected(with(kPmi, {{"PMI_RANK", "4"}}), {"PMI_RANK", "PMI_SIZE", "4"});
  EXPECT_EQ(world_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).world_size, 1);
  // Srun with PMI states no places on the node, but Slurm does.
  EXPECT_EQ(world_of(with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}})).source, "Slurm");
}

TEST(World, ARankWithoutASizeIsRejected) {
  expect_rejected({{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "prte-1@1"}},
                  {"PMIX_RANK=3", "how many ranks", "WORLD_SIZE", "mpirun"});
  expect_rejected({{"PMI_ID", "0"}, {"PMI_PORT", "host:1"}}, {"PMI_ID=0", "how many ranks"});
  EXPECT_EQ(world_of(with(kSlurm, {{"PMIX_RANK", "5"}})).world_size, 7) << "srun with PMIx";
  EXPECT_EQ(world_of(with(kOpenMpi, {{"PMIX_RANK", "1"}})).world_size, 4);
}

TEST(World, LaunchersThatContradictEachOtherAreNamed) {
  expect_rejected(
      with(kPmi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}),
      {"OMPI_COMM_WORLD_RANK=0 and OMPI_COMM_WORLD_SIZE=1", "PMI_RANK=1 and PMI_SIZE=4", "unset"});
  const Variables by_hand = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  for (const Variables& launcher : {kOpenMpi, kPmi, kMvapich}) {
    expect_rejected(with(launcher, by_hand), {"RANK=0 and WORLD_SIZE=1", "=1 and", "=4", "unset RANK"});
  }
  expect_rejected(with(kSlurm, by_hand), {"RANK=0 and WORLD_SIZE=1", "SLURM_PROCID=5 and SLURM_NTASKS=7"});
  const Variables wrapped = with(kPmi, {{"RANK", "1"},
                                        {"WORLD_SIZE", "4"},
                                        {"LOCAL_RANK", "1"},
                                        {"LOCAL_WORLD_SIZE", "4"},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", "29500"}});
  EXPECT_EQ(world_of(wrapped).rank, 1) << "a script that hands the same place on";
  EXPECT_EQ(world_of(with(kTorchrun, kPmi)).rank, 5) << "torchrun that mpiexec started once per node";
}

TEST(OuterPlace, IsThatOfTheLauncherThatStartedThisProcess) {
  const auto place = [](const Variables& variables) {
    return outer_place([&](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_FALSE(place({}));
  EXPECT_FALSE(place({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  EXPECT_EQ(place(kPmi)->rank, 1);
  EXPECT_EQ(place(kPmi)->size, 4);
  EXPECT_EQ(place(kSlurm)->launcher, "Slurm");
}

TEST(World, SlurmStep) {
  const World world = world_of(kSlurm);
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.world_size, 7);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.local_world_size, 2);
  EXPECT_EQ(world.node_rank, 2);
  EXPECT_EQ(world.master_addr, "gpu07");
  EXPECT_EQ(world.run_id, "4711.0");
  EXPECT_EQ(world.source, "Slurm");
  EXPECT_GE(world.master_port, 20000);
  EXPECT_LT(world.master_port, 30000);
  EXPECT_EQ(world_of(with(kSlurm, {{"MASTER_ADDR", "gpu09"}, {"MASTER_PORT", "5000"}})).master_addr, "gpu09");
  EXPECT_EQ(world_of(with(kSlurm, {{"MASTER_PORT", "5000"}})).master_port, 5000);
}

TEST(World, SlurmStepOfFewerTasksThanTheJobCountsItsOwn) {
  const World world = world_of(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "1"},
                                             {"SLURM_PROCID", "0"},
                                             {"SLURM_NODEID", "0"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "1"}}));
  EXPECT_EQ(world.world_size, 1);
  EXPECT_EQ(world.local_world_size, 1);
}

TEST(World, SlurmOnOneNodeStaysOnTheLoopback) {
  const World world = world_of(
      {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(world.world_size, 2);
  EXPECT_EQ(world.local_world_size, 2);
  EXPECT_EQ(world.master_addr, "127.0.0.1");
}

TEST(World, OneProcessInASlurmAllocationOfSeveralTasksIsSaidSo) {
  EXPECT_EQ(world_of({{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}), World{})
      << "a batch script of one task";
  // The shell of salloc, without and with a step of its own.
  for (const Variables& shell : {Variables{{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}},
                                 Variables{{"SLURM_NTASKS", "4"},
                                           {"SLURM_JOB_ID", "1"},
                                           {"SLURM_PROCID", "0"},
                                           {"SLURM_STEP_ID", "4294967290"}}}) {
    World world = world_of(shell);
    EXPECT_THAT(world.source, HasSubstr("SLURM_NTASKS is 4, but srun did not start it"));
    world.source = World{}.source;
    EXPECT_EQ(world, World{});
  }
  expect_rejected(
      {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "1"}},
      {"SLURM_NTASKS is 8", "batch script", "srun", "unset SLURM_NTASKS"});
}

TEST(World, SlurmHalfSet) {
  expect_rejected(without(kSlurm, "SLURM_LOCALID"), {"SLURM_LOCALID"});
  expect_rejected(without(kSlurm, "SLURM_NTASKS"), {"SLURM_NTASKS"});
  expect_rejected(without(kSlurm, "SLURM_JOB_NODELIST"), {"SLURM_JOB_NODELIST"});
  expect_rejected(with(kSlurm, {{"SLURM_NODEID", "3"}}), {"SLURM_NODEID", "SLURM_TASKS_PER_NODE"});
  expect_rejected(with(without(kSlurm, "SLURM_TASKS_PER_NODE"), {{"SLURM_NNODES", "3"}}),
                  {"SLURM_NTASKS_PER_NODE"});
  expect_rejected(with(kSlurm, {{"SLURM_JOB_NODELIST", "gpu[7-"}}), {"gpu[7-"});
}

TEST(WorldFromTorchrun, MeetsInTheAgentsStoreAndTakesTheDeviceOfBraidLaunch) {
  const World agent = world_of(
      with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(agent.store_is_hosted);
  EXPECT_EQ(agent.attempt, 2);
  EXPECT_FALSE(world_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).store_is_hosted);
  EXPECT_EQ(world_of(with(kTorchrun, {{"BRAID_LOCAL_DEVICE", "3"}})).local_device, 3);
  EXPECT_FALSE(world_of(kTorchrun).local_device);
}

}  // namespace
}  // namespace braid::comm
