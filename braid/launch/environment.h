// The environment of each rank: torchrun's variables and braid's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "braid/launch/options.h"

namespace braid::launch {

using Environment = std::map<std::string, std::string>;

/// Where ranks meet, and what each of them receives beyond the launcher's options.
struct RankSetting {
  int64_t local_rank = 0;
  std::string master_addr{};
  int64_t master_port = 0;
  std::optional<int> master_listen_fd{};      // the listening socket, inherited only by rank 0
  std::string run_id{};                       // empty: none
  std::string secret{};                       // the run's
  int64_t omp_num_threads = 1;                // used if the environment has none
  std::optional<int64_t> terminal_columns{};  // the rank's output ends on a terminal this wide
  std::optional<int> terminal_fd{};           // that terminal, inherited
};

/// The global rank of `local_rank` on the node that `options` describes.
int64_t global_rank(const LaunchOptions& options, int64_t local_rank);

/// `base` with the variables of one rank, which replace those of `base`: RANK, LOCAL_RANK, WORLD_SIZE,
/// LOCAL_WORLD_SIZE, GROUP_RANK (the node), MASTER_ADDR, MASTER_PORT as torchrun sets them; OMP_NUM_THREADS
/// unless `base` has it; BRAID_RUN_ID; BRAID_RUN_SECRET; BRAID_LOCAL_DEVICE, the entry of --gpus;
/// BRAID_MASTER_LISTEN_FD, a socket that already listens on MASTER_PORT, on which rank 0 serves the
/// rendezvous; BRAID_PROGRESS=1 and COLUMNS if the output goes to a terminal, so that a progress bar may be
/// drawn, and BRAID_TERMINAL_FD, that terminal, whose width may change.
Environment rank_environment(const Environment& base, const LaunchOptions& options,
                             const RankSetting& setting);

/// What keeps this run apart from others at the same address: BRAID_RUN_ID of `base`; else on one node 128
/// random bits in hexadecimal; else (nodes cannot agree on a random one) empty. Not a secret.
std::string choose_run_id(const Environment& base, const LaunchOptions& options);

}  // namespace braid::launch
