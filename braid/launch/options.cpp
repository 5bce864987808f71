#include "braid/launch/options.h"

#include <algorithm>
#include <set>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::launch {
namespace {

// Rejects anything that is not an option of the launcher. The most likely mistake is a command's option in
// front of the command.
void check_known(const std::string& flag, std::span<const config::OptionSpec> specs) {
  if (flag.starts_with("--") && config::find_option(specs, flag.substr(2)) != nullptr) return;
  try {
    config::throw_unknown_option(specs,
                                 flag.substr(std::min<size_t>(flag.find_first_not_of('-'), flag.size())),
                                 "braid launch " + flag);
  } catch (const ConfigError& error) {
    throw ConfigError(cat(error.what(),
                          ". Options of the command go after it, as in braid launch --nproc_per_node 2 "
                          "pretrain --max_steps 10"));
  }
}

}  // namespace

bool is_own_program(const LaunchOptions& options) {
  return !options.command.empty() && options.command.front().find('/') != std::string::npos;
}

config::OptionTable<LaunchOptions> launch_table() {
  using L = LaunchOptions;
  config::OptionTable<L> table(
      {.command = "braid launch",
       .usage = "[--flag value]... COMMAND [ARGUMENTS]",
       .summary =
           "Starts `braid COMMAND ARGUMENTS` once per rank, shows what local "
           "rank 0 prints, and ends all ranks when one "
           "fails. A COMMAND with a slash, such as ./train, is started "
           "instead of braid. The exit code is that of the rank that failed first, or else "
           "was stopped first, or 0. Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 ask the ranks to end; "
           "a second Ctrl-C, SIGTERM or SIGHUP ends them immediately. Ranks get torchrun's variables, "
           "and OMP_NUM_THREADS = cores / ranks "
           "unless it is set."});
  table.group("Ranks of this node");
  table.add("nproc_per_node", &L::nproc_per_node,
            {.help = "Ranks to start. Unset: as many as --gpus names, or 1.",
             .range = {.at_least = 1, .at_most = static_cast<double>(kMaxRanksPerNode)}});
  table.add("gpus", &L::gpus,
            {.help = "Comma-separated device numbers, as in 0,1,2,3: one rank on each. Unset: local rank "
                     "k takes device k.",
             .aliases = {"devices"}});
  table.add("log_dir", &L::log_dir,
            {.help = "Write the output of local rank k to workerlog.k in this directory; an existing file is "
                     "appended to."});
  table.group("Several nodes (braid launch is started once on each)");
  table.add("nnodes", &L::nnodes, {.help = "Nodes of the run.", .range = {.at_least = 1, .at_most = 65536}});
  table.add("node_rank", &L::node_rank,
            {.help = "This node's number. Required if nnodes is above 1.", .range = {.at_least = 0}});
  table.add("master_addr", &L::master_addr,
            {.help = "Host of node 0, where the ranks meet; the same on every node. Required if "
                     "nnodes is above 1. "
                     "Unset: loopback."});
  table.add("master_port", &L::master_port,
            {.help = "Port of node 0, where the ranks meet. Unset: a free one on one node, 29500 on several.",
             .range = {.at_least = 1, .at_most = 65535}});
  table.add(
      "secret_file", &L::secret_file,
      {.help = "File with the run's secret, equal on every node and readable by its owner alone (chmod 600). "
               "Unset: BRAID_RUN_SECRET in the environment. One of them is required if nnodes is above 1; "
               "one node otherwise makes a secret for each run."});
  return table;
}

std::optional<LaunchOptions> parse_launch_options(const std::vector<std::string>& words) {
  const config::OptionTable<LaunchOptions> table = launch_table();
  std::vector<std::string> plain = words;
  // Every option takes one value, so a word in the position of a flag is a flag or the command.
  for (size_t i = 0; i < plain.size() && plain[i].starts_with("-");) {
    if (plain[i] == "-h" || plain[i] == "--help") return std::nullopt;
    const size_t equals = std::min(plain[i].find('='), plain[i].size());
    std::replace(plain[i].begin() + 1, plain[i].begin() + static_cast<std::ptrdiff_t>(equals), '-', '_');
    if (plain[i].starts_with("-_")) plain[i][1] = '-';
    check_known(plain[i].substr(0, equals), table.specs());
    i += equals < plain[i].size() ? 1 : 2;
  }
  config::ParsedArguments parsed = parse_arguments(plain, table.specs(), config::Positionals::kStopAtFirst);
  LaunchOptions options;
  for (const config::Assignment& given : parsed.assignments) {
    require<ConfigError>(!trim(given.values.front()).empty(), given.label,
                         " needs a value, got an empty one");
  }
  table.apply(options, parsed.assignments);
  options.command = std::move(parsed.rest);
  check(options);
  return options;
}

void check(const LaunchOptions& options) {
  launch_table().check(options);
  const std::vector<int64_t> devices = device_numbers(options);
  const auto count = static_cast<int64_t>(devices.size());
  require<ConfigError>(count <= kMaxRanksPerNode, "--gpus lists ", count, " devices; at most ",
                       kMaxRanksPerNode, " ranks run on a node");
  require<ConfigError>(std::set<int64_t>(devices.begin(), devices.end()).size() == devices.size(), "--gpus ",
                       options.gpus, " lists a device twice; every rank needs its own");
  require<ConfigError>(devices.empty() || !options.nproc_per_node || *options.nproc_per_node == count,
                       "--nproc_per_node ", options.nproc_per_node.value_or(0), " and --gpus ", options.gpus,
                       " (", counted(count, "device"),
                       ") disagree; pass only one of them, or the same number");
  if (options.nnodes > 1) {
    require<ConfigError>(options.node_rank.has_value(), "--nnodes ", options.nnodes,
                         " needs --node_rank on every node: 0 to ", options.nnodes - 1);
    require<ConfigError>(options.master_addr.has_value(), "--nnodes ", options.nnodes,
                         " needs --master_addr: the name or address of node 0, the same on every node");
  }
  require<ConfigError>(options.node_rank.value_or(0) < options.nnodes, "--node_rank must be in [0, ",
                       options.nnodes - 1, "] with --nnodes ", options.nnodes, ", got ",
                       options.node_rank.value_or(0));
  if (options.master_addr) {
    // An IPv6 address has two colons or more.
    const auto colons = std::count(options.master_addr->begin(), options.master_addr->end(), ':');
    require<ConfigError>(colons != 1, "--master_addr ", *options.master_addr,
                         " contains a port; pass the host as --master_addr and the port as --master_port");
  }
  require<ConfigError>(!options.command.empty(),
                       "braid launch has nothing to run: add a command after the options, as in braid launch "
                       "--nproc_per_node 2 pretrain ...");
}

std::vector<int64_t> device_numbers(const LaunchOptions& options) {
  std::vector<int64_t> devices;
  if (options.gpus.empty()) return devices;
  for (const std::string& piece : split(options.gpus, ',')) {
    const std::optional<int64_t> device = parse_int(trim(piece));
    require<ConfigError>(device && *device >= 0,
                         "--gpus must be comma-separated device numbers, as in 0,1,2,3; got '", options.gpus,
                         "'");
    devices.push_back(*device);
  }
  return devices;
}

int64_t ranks_per_node(const LaunchOptions& options) {
  if (options.nproc_per_node) return *options.nproc_per_node;
  return std::max<int64_t>(1, static_cast<int64_t>(device_numbers(options).size()));
}

std::string launch_help() {
  return launch_table().help() +
         "\nExample: braid launch --nproc_per_node 2 --log_dir log pretrain run.yaml\n";
}

}  // namespace braid::launch
