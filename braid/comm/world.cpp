#include "braid/comm/world.h"

#include <cstdint>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/host_list.h"

namespace braid::comm {
namespace {

// Derived ports stay below the range of Linux's ephemeral ports (32768 and up).
constexpr int kFirstDerivedPort = 20'000;
constexpr int kDerivedPorts = 10'000;

// Reads variables and reports errors in them.
class Variables {
 public:
  explicit Variables(const Environment& get) : get_(get) {}

  std::optional<std::string> text(std::string_view name) const {
    std::optional<std::string> value = get_(name);
    if (value && trim(*value).empty()) return std::nullopt;
    return value;
  }

  bool has(std::string_view name) const { return text(name).has_value(); }

  std::optional<int> number(std::string_view name) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    const std::optional<int64_t> parsed = parse_int(trim(*value));
    require<ConfigError>(parsed && *parsed >= 0 && *parsed <= INT32_MAX, name, "='", *value,
                         "' in the environment must be a whole number >= 0");
    return static_cast<int>(*parsed);
  }

  int needed(std::string_view name, std::string_view because) const {
    const std::optional<int> value = number(name);
    require<ConfigError>(value.has_value(), name, " is not set in the environment, but ", because, " is");
    return *value;
  }

  std::optional<std::string> first_text(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (std::optional<std::string> value = text(name)) return value;
    }
    return std::nullopt;
  }

  std::optional<int> first_number(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (const std::optional<int> value = number(name)) return value;
    }
    return std::nullopt;
  }

 private:
  const Environment& get_;
};

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
}

int derived_port(uint64_t seed) { return kFirstDerivedPort + static_cast<int>(seed % kDerivedPorts); }

uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325u;  // FNV-1a: equal on every rank, unlike std::hash across builds
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

World from_torchrun(const Variables& variables) {
  World world;
  world.source = "torchrun or braid launch";
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

World from_open_mpi(const Variables& variables) {
  World world;
  world.source = "Open MPI";
  world.rank = variables.needed("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  world.world_size = variables.needed("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK");
  world.local_rank = variables.needed("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK");
  world.local_world_size = variables.needed("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK");
  world.run_id = variables.first_text({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}).value_or("");
  world.master_addr = variables.text("MASTER_ADDR").value_or(world.master_addr);
  // Without a job id, the default port still allows one run per machine.
  if (!world.run_id.empty()) world.master_port = derived_port(hash(world.run_id));
  world.master_port = variables.number("MASTER_PORT").value_or(world.master_port);
  check(world, {.rank = "OMPI_COMM_WORLD_RANK",
                .size = "OMPI_COMM_WORLD_SIZE",
                .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"});
  require<ConfigError>(
      world.local_world_size == world.world_size || variables.has("MASTER_ADDR"),
      "Open MPI runs ranks on several nodes, but MASTER_ADDR (the host of rank 0) is not set: add "
      "-x MASTER_ADDR=<host of rank 0> to mpirun");
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

World placed(const Variables& variables) {
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return from_torchrun(variables);
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "BRAID_MASTER_LISTEN_FD"}) {
    require<ConfigError>(!variables.has(name), "RANK and WORLD_SIZE are not set in the environment, but ",
                         name, " is: unset it, or start the ranks with braid launch");
  }
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE"))
    return from_open_mpi(variables);
  const bool in_step = variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEPID");
  const std::optional<int> tasks = in_step ? variables.first_number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
                                           : variables.number("SLURM_NTASKS");
  if (variables.has("SLURM_PROCID")) {
    require<ConfigError>(tasks.has_value() || !in_step,
                         "SLURM_NTASKS is not set in the environment, but SLURM_PROCID is");
    // A batch script has SLURM_PROCID=0 too: with one task that is simply a single process.
    if (tasks && (in_step || *tasks > 1)) return from_slurm(variables, *tasks);
  }
  return {};
}

}  // namespace

World world_from_environment(const Environment& get) {
  const Variables variables(get);
  World world = placed(variables);
  if (world.world_size > 1) world.run_secret = secret(variables);
  return world;
}

}  // namespace braid::comm
