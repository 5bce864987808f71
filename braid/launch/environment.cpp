#include "braid/launch/environment.h"

#include "braid/launch/secret.h"

namespace braid::launch {

int64_t global_rank(const LaunchOptions& options, int64_t local_rank) {
  return options.node_rank.value_or(0) * ranks_per_node(options) + local_rank;
}

Environment rank_environment(const Environment& base, const LaunchOptions& options,
                             const RankSetting& setting) {
  Environment result = base;
  // The variables of an outer launch must not reach these ranks.
  for (const char* name : {"BRAID_RUN_ID", kSecretVariable, "BRAID_LOCAL_DEVICE", "BRAID_MASTER_LISTEN_FD",
                           "BRAID_PROGRESS", "BRAID_TERMINAL_FD"}) {
    result.erase(name);
  }
  const int64_t ranks = ranks_per_node(options);
  result["RANK"] = std::to_string(global_rank(options, setting.local_rank));
  result["LOCAL_RANK"] = std::to_string(setting.local_rank);
  result["WORLD_SIZE"] = std::to_string(ranks * options.nnodes);
  result["LOCAL_WORLD_SIZE"] = std::to_string(ranks);
  result["GROUP_RANK"] = std::to_string(options.node_rank.value_or(0));
  result["MASTER_ADDR"] = setting.master_addr;
  result["MASTER_PORT"] = std::to_string(setting.master_port);
  result.try_emplace("OMP_NUM_THREADS", std::to_string(setting.omp_num_threads));
  if (!setting.run_id.empty()) result["BRAID_RUN_ID"] = setting.run_id;
  if (!setting.secret.empty()) result[kSecretVariable] = setting.secret;
  if (const std::vector<int64_t> devices = device_numbers(options); !devices.empty()) {
    result["BRAID_LOCAL_DEVICE"] = std::to_string(devices.at(static_cast<size_t>(setting.local_rank)));
  }
  if (setting.master_listen_fd) result["BRAID_MASTER_LISTEN_FD"] = std::to_string(*setting.master_listen_fd);
  if (setting.terminal_columns) {
    result["BRAID_PROGRESS"] = "1";
    result["COLUMNS"] = std::to_string(*setting.terminal_columns);
    if (setting.terminal_fd) result["BRAID_TERMINAL_FD"] = std::to_string(*setting.terminal_fd);
  }
  return result;
}

std::string choose_run_id(const Environment& base, const LaunchOptions& options) {
  if (const auto given = base.find("BRAID_RUN_ID"); given != base.end() && !given->second.empty())
    return given->second;
  if (options.nnodes > 1) return {};
  return random_hex(16);
}

}  // namespace braid::launch
