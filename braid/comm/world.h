// This process's place among all ranks of a run, and the address of rank 0.
#pragma once

#include <optional>
#include <string>

#include "braid/comm/launchers.h"

namespace braid::comm {

/// The environment variable with the run's secret.
inline constexpr const char* kSecretVariable = "BRAID_RUN_SECRET";

/// The place of one process in a run.
struct World {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        // among the ranks of this node
  int local_world_size = 1;  // ranks on this node
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";  // of rank 0's store: name or address
  int master_port = 29500;
  std::string run_id;               // equal on all ranks of a run; empty if the launcher provides none
  std::string run_secret;           // known to this run's ranks alone; empty if there is none. Not for logs.
  std::optional<int> local_device;  // the GPU of this rank; local_rank if the launcher names none
  int attempt = 0;                  // restarts of the run by its launcher
  bool store_is_hosted = false;     // the launcher hosts a store at that address: torchrun's agent
  std::optional<int> master_listen_fd;      // a bound socket for rank 0's store, inherited from the launcher
  std::string source = "a single process";  // who started the ranks, for messages

  friend bool operator==(const World&, const World&) = default;
};

/// The place that the launcher's variables give this process. Pure; the first of these that is present
/// decides:
/// 1. `braid launch` and torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
///    MASTER_PORT; if set, GROUP_RANK, TORCHELASTIC_RUN_ID or BRAID_RUN_ID, and BRAID_MASTER_LISTEN_FD
///    (rank 0 only).
/// 2. MPI launchers: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE of Open MPI, the same after
///    MV2_COMM_WORLD_ of MVAPICH2, and PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS of MPICH's and
///    Intel's mpiexec. On several nodes MASTER_ADDR must be passed on.
/// 3. A step of Slurm: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_JOB_NODELIST,
///    SLURM_JOB_ID, with the STEP forms first.
/// 4. None: one rank; `source` says so where an allocation of Slurm has room for more.
/// MASTER_ADDR and MASTER_PORT override what 2 and 3 derive. BRAID_RUN_SECRET is read with all of them.
/// Throws ConfigError, naming the variables, if some are missing, are not numbers, or contradict one another;
/// if a rank is stated without a number of ranks, or a batch script of Slurm with several tasks starts one
/// process; or if the secret is too short to be one (the message does not contain it).
World world_from_environment(const Environment& get);

}  // namespace braid::comm
