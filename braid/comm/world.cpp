#include "braid/comm/world.h"

#include <cstdint>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/host_list.h"
#include "braid/comm/launchers.h"

namespace braid::comm {
namespace {

// Derived ports stay below the range of Linux's ephemeral ports (32768 and up).
constexpr int kFirstDerivedPort = 20'000;
constexpr int kDerivedPorts = 10'000;

struct Names {
  std::string_view rank, size, local_rank, local_size;
};

void check(const World& world, const Names& names) {
  require<ConfigError>(world.world_size >= 1, names.size, " must be >= 1, got ", world.world_size);
  require<ConfigError>(world.rank < world.world_size, names.rank, " must be below ", names.size, " (",
                       world.world_size, "), got ", world.rank);
  require<ConfigError>(1 <= world.local_world_size && world.local_world_size <= world.world_size,
                       names.local_size, " must be in [1, ", names.size, " = ", world.world_size, "], got ",
                       world.local_world_size);
  require<ConfigError>(world.local_rank < world.local_world_size, names.local_rank, " must be below ",
                       names.local_size, " (", world.local_world_size, "), got ", world.local_rank);
  require<ConfigError>(1 <= world.master_port && world.master_port <= 65535,
                       "MASTER_PORT must be in [1, 65535], got ", world.master_port);
  require<ConfigError>(
      world.master_addr != "0.0.0.0" && world.master_addr != "::", "MASTER_ADDR=", world.master_addr,
      " stands for all addresses of a machine, and rank 0 would listen on all: "
      "name the one under which the others reach it");
}

int derived_port(uint64_t seed) { return kFirstDerivedPort + static_cast<int>(seed % kDerivedPorts); }

uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325u;  // FNV-1a: equal on every rank, unlike std::hash across builds
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

std::string source_of_torchrun_variables(const Variables& variables) {
  if (variables.has("TORCHELASTIC_RUN_ID")) return "torchrun";
  // Both launchers state the node; people who set RANK by hand hardly do.
  return variables.has("GROUP_RANK") ? "braid launch" : "RANK and WORLD_SIZE in the environment";
}

World from_torchrun(const Variables& variables) {
  check_hand_set_place(variables);
  World world;
  world.source = source_of_torchrun_variables(variables);
  world.rank = variables.needed("RANK", "WORLD_SIZE");
  world.world_size = variables.needed("WORLD_SIZE", "RANK");
  if (world.world_size == 1) {
    world.local_rank = variables.number("LOCAL_RANK").value_or(0);
    world.local_world_size = variables.number("LOCAL_WORLD_SIZE").value_or(1);
  } else {
    world.local_rank = variables.needed("LOCAL_RANK", "RANK");
    world.local_world_size = variables.needed("LOCAL_WORLD_SIZE", "RANK");
    require<ConfigError>(variables.has("MASTER_ADDR"),
                         "MASTER_ADDR is not set in the environment, but RANK is");
    require<ConfigError>(variables.has("MASTER_PORT"),
                         "MASTER_PORT is not set in the environment, but RANK is");
  }
  world.master_addr = variables.text("MASTER_ADDR").value_or(world.master_addr);
  world.master_port = variables.number("MASTER_PORT").value_or(world.master_port);
  world.run_id = variables.first_text({"TORCHELASTIC_RUN_ID", "BRAID_RUN_ID"}).value_or("");
  world.local_device = variables.number("BRAID_LOCAL_DEVICE");
  world.attempt = variables.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  world.store_is_hosted = variables.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  check(world,
        {.rank = "RANK", .size = "WORLD_SIZE", .local_rank = "LOCAL_RANK", .local_size = "LOCAL_WORLD_SIZE"});
  world.node_rank = variables.number("GROUP_RANK").value_or(world.rank / world.local_world_size);
  world.master_listen_fd = variables.number("BRAID_MASTER_LISTEN_FD");
  require<ConfigError>(!world.master_listen_fd || world.rank == 0,
                       "BRAID_MASTER_LISTEN_FD is for rank 0 alone, but RANK is ", world.rank);
  return world;
}

std::optional<int> first_of(const Variables& variables, const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    if (const std::optional<int> value = variables.number(name)) return value;
  }
  return std::nullopt;
}

World from_mpi(const Variables& variables, const MpiLauncher& launcher) {
  World world;
  world.source = launcher.name;
  world.rank = variables.needed(launcher.rank, launcher.size);
  world.world_size = variables.needed(launcher.size, launcher.rank);
  const std::optional<int> local_rank = first_of(variables, launcher.local_ranks);
  const std::optional<int> local_size = first_of(variables, launcher.local_sizes);
  if (world.world_size > 1) {
    for (const auto& [value, name] : {std::pair{local_rank, launcher.local_ranks.front()},
                                      std::pair{local_size, launcher.local_sizes.front()}}) {
      require<ConfigError>(
          value.has_value(), name, " is not set in the environment, but ", launcher.rank,
          " is: which ranks share a machine is unknown; start the ranks with braid launch, or "
          "set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
          "for each");
    }
  }
  world.local_rank = local_rank.value_or(0);
  world.local_world_size = local_size.value_or(1);
  for (const std::string_view name : launcher.ids) {
    if (world.run_id.empty()) world.run_id = variables.text(name).value_or("");
  }
  world.master_addr = variables.text("MASTER_ADDR").value_or(world.master_addr);
  // Without a job id, the default port still allows one run per machine.
  if (!world.run_id.empty()) world.master_port = derived_port(hash(world.run_id));
  world.master_port = variables.number("MASTER_PORT").value_or(world.master_port);
  check(world, {.rank = launcher.rank,
                .size = launcher.size,
                .local_rank = launcher.local_ranks.front(),
                .local_size = launcher.local_sizes.front()});
  require<ConfigError>(
      world.local_world_size == world.world_size || variables.has("MASTER_ADDR"), launcher.name,
      " runs ranks on several nodes, but MASTER_ADDR (the host of rank 0) is not set: ", launcher.how_to_set);
  world.node_rank = world.rank / world.local_world_size;
  return world;
}

int slurm_tasks_here(const Variables& variables, const World& world) {
  if (const auto list = variables.first_text({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})) {
    const std::vector<int> tasks = expand_tasks_per_node(*list);
    require<ConfigError>(static_cast<size_t>(world.node_rank) < tasks.size(), "SLURM_NODEID is ",
                         world.node_rank, ", but SLURM_TASKS_PER_NODE='", *list, "' has ", tasks.size(),
                         " nodes");
    return tasks[static_cast<size_t>(world.node_rank)];
  }
  if (variables.first_number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}).value_or(1) == 1)
    return world.world_size;
  const std::optional<int> per_node = variables.number("SLURM_NTASKS_PER_NODE");
  require<ConfigError>(
      per_node.has_value(),
      "neither SLURM_TASKS_PER_NODE nor SLURM_NTASKS_PER_NODE is set in the environment, but SLURM_PROCID "
      "is and there are several nodes");
  return *per_node;
}

World from_slurm(const Variables& variables, int tasks) {
  World world;
  world.source = "Slurm";
  world.rank = variables.needed("SLURM_PROCID", "SLURM_NTASKS");
  world.world_size = tasks;
  world.local_rank = variables.needed("SLURM_LOCALID", "SLURM_PROCID");
  world.node_rank = variables.number("SLURM_NODEID").value_or(0);
  world.local_world_size = slurm_tasks_here(variables, world);
  const std::optional<std::string> job = variables.first_text({"SLURM_JOB_ID", "SLURM_JOBID"});
  const std::string step = variables.first_text({"SLURM_STEP_ID", "SLURM_STEPID"}).value_or("");
  if (job) world.run_id = step.empty() ? *job : cat(*job, ".", step);
  if (const std::optional<std::string> address = variables.text("MASTER_ADDR")) {
    world.master_addr = *address;
  } else if (world.local_world_size != world.world_size) {
    const auto nodes = variables.first_text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    require<ConfigError>(
        nodes.has_value(),
        "SLURM_JOB_NODELIST is not set in the environment, but SLURM_PROCID is and there are several nodes");
    world.master_addr = expand_host_list(*nodes).front();
  }
  if (!world.run_id.empty()) world.master_port = derived_port(hash(world.run_id));
  world.master_port = variables.number("MASTER_PORT").value_or(world.master_port);
  check(world, {.rank = "SLURM_PROCID",
                .size = "SLURM_NTASKS",
                .local_rank = "SLURM_LOCALID",
                .local_size = "the tasks on this node (SLURM_TASKS_PER_NODE)"});
  return world;
}

// Whoever listens to a proof can test guesses of a short secret against it.
constexpr size_t kLeastSecretCharacters = 16;

std::string secret(const Variables& variables) {
  std::string given(trim(variables.text(kSecretVariable).value_or("")));
  require<ConfigError>(given.empty() || given.size() >= kLeastSecretCharacters, kSecretVariable, " has ",
                       counted(static_cast<int64_t>(given.size()), "character"), "; at least ",
                       kLeastSecretCharacters, " are needed, and openssl rand -hex 32 makes 64");
  return given;
}

// Srun with MPI support sets both; Slurm's own say more.
bool says_the_same_as_slurm(const Variables& variables, const MpiLauncher& launcher, int tasks) {
  return !first_of(variables, launcher.local_ranks) && variables.number("SLURM_PROCID").has_value() &&
         variables.number(launcher.rank) == variables.number("SLURM_PROCID") &&
         variables.number(launcher.size) == tasks;
}

// A process in an allocation of Slurm that srun did not start.
World in_slurm_allocation(const Variables& variables, int tasks) {
  World world;
  if (tasks <= 1) return world;
  const bool is_batch = variables.has("SLURM_PROCID") && !variables.has("SLURM_STEP_ID");
  require<ConfigError>(!is_batch, "SLURM_NTASKS is ", tasks,
                       ", but this is the batch script's own process, and no other was started: start the "
                       "ranks with srun braid ... or braid launch --nproc_per_node ",
                       tasks, " ...; for a single rank, unset SLURM_NTASKS");
  world.source = cat("a single process: SLURM_NTASKS is ", tasks,
                     ", but srun did not start it, and braid launch neither");
  return world;
}

World placed(const Variables& variables) {
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return from_torchrun(variables);
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "BRAID_MASTER_LISTEN_FD"}) {
    require<ConfigError>(!variables.has(name), "RANK and WORLD_SIZE are not set in the environment, but ",
                         name, " is: unset it, or start the ranks with braid launch");
  }
  const bool in_step = in_slurm_step(variables);
  const std::optional<int> tasks = in_step ? variables.first_number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
                                           : variables.number("SLURM_NTASKS");
  const MpiLauncher* mpi = stated_mpi_launcher(variables);
  if (mpi != nullptr && !(in_step && tasks && says_the_same_as_slurm(variables, *mpi, *tasks)))
    return from_mpi(variables, *mpi);
  if (in_step && variables.has("SLURM_PROCID")) {
    require<ConfigError>(tasks.has_value(),
                         "SLURM_NTASKS is not set in the environment, but SLURM_PROCID is");
    return from_slurm(variables, *tasks);
  }
  check_no_rank_without_size(variables);
  return in_slurm_allocation(variables, tasks.value_or(1));
}

}  // namespace

World world_from_environment(const Environment& get) {
  const Variables variables(get);
  World world = placed(variables);
  if (world.world_size > 1) world.run_secret = secret(variables);
  return world;
}

}  // namespace braid::comm
