#include "braid/cli/run_setup.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "braid/base/cores.h"
#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"
#include "braid/cli/run_files.h"
#include "braid/cli/version.h"
#include "braid/comm/interfaces.h"
#include "braid/config/pretrain_table.h"

namespace braid::cli {

namespace fs = std::filesystem;

std::string place_text(const comm::World& world) {
  if (world.source == comm::World{}.source) return "one rank: no launcher's variables are set";
  if (world.world_size == 1) return cat("one rank: ", world.source);
  return cat("rank ", world.rank, " of ", world.world_size, ", local rank ", world.local_rank, " of ",
             world.local_world_size, " on node ", world.node_rank, ", as the variables of ", world.source,
             " say; rank 0 is at ", world.master_addr, " port ", world.master_port);
}

std::vector<std::string> misspelt_variables(const CommandContext& context) {
  static const std::vector<std::string> known = {"BRAID_RUN_ID", comm::kSecretVariable, "BRAID_LOCAL_DEVICE",
                                                 "BRAID_MASTER_LISTEN_FD", "BRAID_PROGRESS"};
  std::vector<std::string> notes;
  for (const auto& [name, value] : context.environment) {
    if (!name.starts_with("BRAID_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::optional<std::string> meant = nearest(name, known);
    if (meant) notes.push_back(cat(name, " in the environment has no effect: is ", *meant, " meant?"));
  }
  return notes;
}

int64_t compute_threads(const CommandContext& context, int64_t num_threads) {
  if (num_threads > 0) return num_threads;
  const std::optional<std::string> variable = lookup(context, "OMP_NUM_THREADS");
  return variable ? threads_of_omp_num_threads(*variable) : 1;
}

std::optional<std::string> too_many_threads(int64_t threads, int64_t cores) {
  if (threads <= cores) return std::nullopt;
  return cat(counted(threads, "compute thread"), " on ", counted(cores, "core"),
             ": they slow one another down; set OMP_NUM_THREADS or --num_threads to ", cores, " or less");
}

void check_interface_variables(const CommandContext& context, const comm::World& world,
                               std::string_view device) {
  if (world.world_size == 1) return;
  const std::optional<std::string> gloo = lookup(context, "GLOO_SOCKET_IFNAME");
  const std::optional<std::string> nccl = lookup(context, "NCCL_SOCKET_IFNAME");
  if (device == "cpu" && gloo) comm::check_gloo_interfaces(*gloo, comm::network_interfaces());
  if (device != "cpu" && nccl) comm::check_nccl_interfaces(*nccl, comm::network_interfaces());
}

namespace {

std::string lock_path(const config::PretrainOptions& options) {
  return (fs::path(options.output_dir) / "run.lock").string();
}

void check_no_earlier_run(const config::PretrainOptions& options) {
  std::error_code error;
  require<ConfigError>(
      options.overwrite_output_dir || !fs::exists(fs::path(options.output_dir) / "metrics.jsonl", error),
      "--output_dir ", options.output_dir,
      " holds an earlier run (metrics.jsonl): name another directory, or give --overwrite_output_dir 1 to "
      "replace it");
}

}  // namespace

void prepare_output_dir(const config::PretrainOptions& options) {
  // Of a run that has not ended, --overwrite_output_dir would be no cure.
  const std::optional<std::string> holder = output_lock_holder(lock_path(options));
  if (!holder) check_no_earlier_run(options);
  std::error_code error;
  fs::create_directories(options.output_dir, error);
  require<OutputError>(!error, "--output_dir ", options.output_dir, " cannot be created: ", error.message(),
                       "; ", write_remedy(error.value()));
}

std::unique_ptr<OutputLock> hold_output_dir(const config::PretrainOptions& options,
                                            const std::function<void(const std::string&)>& line) {
  const std::string what = cat("--output_dir ", options.output_dir);
  auto lock = std::make_unique<OutputLock>(lock_path(options), what, "braid pretrain");
  if (lock->missing()) {
    line(cat(what, " is on a file system that cannot lock files (", *lock->missing(),
             "): nothing keeps another run from writing there too"));
  }
  check_no_earlier_run(options);  // again: a run may have ended there in between
  return lock;
}

std::vector<std::pair<std::string, std::string>> settings_of(std::string_view printed) {
  constexpr std::string_view kUnset = ": unset";
  constexpr std::string_view kDefault = "  # default: ";
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& line : split(printed, '\n')) {
    std::string_view text = line;
    if (text.starts_with("# ")) {  // the name of a group, or of an option without a value
      if (text.ends_with(kUnset))
        settings.emplace_back(text.substr(2, text.size() - 2 - kUnset.size()), "unset");
      continue;
    }
    const size_t colon = text.find(": ");
    if (colon == text.npos) continue;
    const std::string_view value = text.substr(colon + 2);
    settings.emplace_back(text.substr(0, colon), value.substr(0, value.find(kDefault)));
  }
  return settings;
}

comm::Introduction introduction_of(const config::PretrainOptions& options, const config::ModelConfig& model,
                                   const comm::World& world) {
  comm::Introduction mine = {.braid_version = std::string(kVersion),
                             .settings = settings_of(config::pretrain_table().print_back(options))};
  std::ostringstream text;
  text << model;
  mine.settings.emplace_back("the model", text.str());
  const bool spans_machines = world.local_world_size < world.world_size;
  if (spans_machines && world.local_rank == 0) mine.files = contents_of(files_of(options));
  return mine;
}

}  // namespace braid::cli
