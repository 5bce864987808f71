#include "braid/launch/environment.h"

#include "braid/base/cores.h"
#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/launch/secret.h"

namespace braid::launch {
namespace {

// A variable's value without white space around it; empty if it is unset.
std::string text_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : std::string(trim(found->second));
}

}  // namespace

int64_t global_rank(const LaunchOptions& options, int64_t local_rank) {
  return options.node_rank.value_or(0) * ranks_per_node(options) + local_rank;
}

Environment rank_environment(const Environment& base, const LaunchOptions& options,
                             const RankSetting& setting) {
  Environment result = base;
  // The variables of an outer launch must not reach these ranks.
  for (const char* name :
       {"BRAID_RUN_ID", kSecretVariable, "BRAID_LOCAL_DEVICE", "BRAID_MASTER_LISTEN_FD", "BRAID_PROGRESS"}) {
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
  if (text_of(base, "OMP_NUM_THREADS").empty())
    result["OMP_NUM_THREADS"] = std::to_string(setting.omp_num_threads);
  if (!setting.run_id.empty()) result["BRAID_RUN_ID"] = setting.run_id;
  if (!setting.secret.empty()) result[kSecretVariable] = setting.secret;
  if (const std::vector<int64_t> devices = device_numbers(options); !devices.empty()) {
    result["BRAID_LOCAL_DEVICE"] = std::to_string(devices.at(static_cast<size_t>(setting.local_rank)));
  }
  if (setting.master_listen_fd) result["BRAID_MASTER_LISTEN_FD"] = std::to_string(*setting.master_listen_fd);
  if (setting.terminal_columns) {
    result["BRAID_PROGRESS"] = "1";
    result["COLUMNS"] = std::to_string(*setting.terminal_columns);
  }
  return result;
}

std::string choose_run_id(const Environment& base, const LaunchOptions& options) {
  if (std::string given = text_of(base, "BRAID_RUN_ID"); !given.empty()) return given;
  if (options.nnodes > 1) return {};
  return random_hex(16);
}

std::optional<int64_t> given_threads(const Environment& base) {
  const std::string given = text_of(base, "OMP_NUM_THREADS");
  if (given.empty()) return std::nullopt;
  return threads_of_omp_num_threads(given);
}

std::vector<std::string> unused_variables(const Environment& base, const LaunchOptions& options,
                                          const RankSetting& setting) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& name, const std::string& used, const std::string& remedy) {
    const std::string given = text_of(base, name);
    if (!given.empty() && given != used)
      notes.push_back(cat(name, "=", given, " in the environment is not used: ", remedy));
  };
  add("MASTER_ADDR", setting.master_addr,
      cat("the ranks meet at ", setting.master_addr, " unless --master_addr names another host"));
  add("MASTER_PORT", std::to_string(setting.master_port),
      cat("the ranks meet at port ", setting.master_port, " unless --master_port names another one"));
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    add(name, "", "braid launch sets it for each rank");
  add("BRAID_LOCAL_DEVICE", "", "--gpus names the devices");
  if (!options.secret_file.empty() && !text_of(base, kSecretVariable).empty())  // its value is not for logs
    notes.push_back(cat(kSecretVariable, " in the environment is not used: --secret_file is given"));
  return notes;
}

std::optional<std::string> shortage_of_cores(int64_t ranks, int64_t threads, int64_t cores) {
  if (ranks * threads <= cores) return std::nullopt;
  return cat(counted(ranks, "rank"), threads > 1 ? cat(" with OMP_NUM_THREADS=", threads) : std::string(),
             " on ", counted(cores, "core"),
             ": the ranks wait for one another's cores, and the run is slower than with ",
             ranks > cores ? "fewer ranks" : "fewer threads");
}

}  // namespace braid::launch
