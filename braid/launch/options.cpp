#include "braid/launch/options.h"

#include <algorithm>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/given_options.h"

namespace braid::launch {
namespace {

constexpr std::string_view kAdvice =
    ". Options of the command go after it, as in braid launch --nproc_per_node 2 pretrain --max_steps 10";

// Divides --master HOST:PORT, paddle.distributed.launch's form, into its parts.
void apply_master(LaunchOptions& options, config::ErrorList& errors) {
  if (options.master.empty()) return;
  const size_t colon = options.master.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_int(options.master.substr(colon + 1));
  const bool is_right = port && colon > 0 && 1 <= *port && *port <= 65535;
  errors.check(is_right, "--master must be HOST:PORT of node 0, as in 10.0.0.1:29500, got '", options.master,
               "'");
  errors.check(!options.master_addr && !options.master_port, "--master ", options.master,
               " and --master_addr or --master_port say the same; pass only one of them");
  if (!is_right) return;
  options.master_addr = options.master.substr(0, colon);
  options.master_port = *port;
  options.master.clear();
}

// Options of paddle.distributed.launch that ask for nothing here; they have no field to be stored in.
std::vector<config::OptionSpec> paddles_options() {
  using config::OptionKind;
  const auto row = [](std::string name, OptionKind kind, config::OptionInfo info) {
    return config::OptionSpec{
        .name = std::move(name), .group = "Of Paddle", .kind = kind, .info = std::move(info)};
  };
  const auto accepted = [&](const char* name, const char* reason) {
    return row(name, OptionKind::kText, {.no_effect = reason});
  };
  const auto only = [&](const char* name, std::vector<std::string> values, const char* missing) {
    return row(name, OptionKind::kText,
               {.supported = std::move(values), .missing = missing, .no_effect = "it is always so"});
  };
  return {accepted("job_id", "a run is known by its output_dir"),
          accepted("log_level", "messages are few and always shown"),
          accepted("log_overwrite", "log files are appended to"),
          accepted("enable_gpu_log", "ranks log memory themselves"),
          accepted("max_restart", "ranks are not restarted: the first failure ends the run"),
          accepted("elastic_timeout", "the number of nodes is fixed"),
          accepted("with_gloo", "ranks meet at node 0 of the launcher"),
          accepted("sort_ip", "--node_rank numbers the nodes"),
          accepted("host", "ranks find their own addresses"),
          only("run_mode", {"collective"}, "parameter servers"),
          only("elastic_level", {"-1", "0"}, "runs whose number of nodes changes"),
          only("legacy", {"0", "false", "False"}, "Paddle's old launcher"),
          only("ips", {"127.0.0.1", "localhost"}, "lists of nodes (use --nnodes, --node_rank and --master)"),
          row("auto_tuner_json", OptionKind::kText, {.missing = "tuning by trials"})};
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
       .summary = "Starts `braid COMMAND ARGUMENTS` once per rank, shows what local "
                  "rank 0 prints, and ends all ranks when one "
                  "fails. A COMMAND with a slash, such as ./train, is started "
                  "instead of braid. The exit code is that of the rank that failed first, or "
                  "0. Ctrl-C or SIGTERM asks the ranks to end; "
                  "a second one ends them immediately. Ranks get torchrun's variables, "
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
            {.help = "This node's number. Required if nnodes is above 1.",
             .range = {.at_least = 0},
             .aliases = {"rank"}});
  table.add("master", &L::master,
            {.help = "HOST:PORT of node 0: master_addr and master_port in one. Unset: as these say."});
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
  std::vector<config::OptionSpec> specs(table.specs().begin(), table.specs().end());
  const std::vector<config::OptionSpec> paddles = paddles_options();
  specs.insert(specs.end(), paddles.begin(), paddles.end());

  // Every option takes one value, so a word in the position of a flag is a flag or the command.
  for (size_t i = 0; i < words.size() && words[i].starts_with("-");) {
    if (words[i] == "-h" || words[i] == "--help") return std::nullopt;
    i += words[i].find('=') < words[i].size() ? 1 : 2;
  }
  config::ErrorList errors;
  config::ParsedArguments parsed =
      parse_arguments(words, specs, config::Positionals::kStopAtFirst, errors, kAdvice);
  LaunchOptions options;
  std::vector<config::Assignment> own;
  for (config::Assignment& given : parsed.assignments) {
    const bool is_empty = trim(given.values.front()).empty();
    errors.check(!is_empty, given.label, " needs a value, got an empty one");
    if (is_empty) continue;
    if (const config::OptionSpec* other = config::find_option(paddles, given.name)) {
      errors.attempt([&] { config::checked_value(*other, given.values.front(), given.label); });
      options.unused.push_back(cat(given.label, " ", given.values.front()));
    } else {
      own.push_back(std::move(given));
    }
  }
  table.apply(options, own, errors);
  apply_master(options, errors);
  options.command = std::move(parsed.rest);
  const bool has_errors = !errors.messages().empty();
  config::attempt_unexplained(errors, [&] {
    // An unknown flag may have taken the command for its value.
    if (!has_errors || !options.command.empty()) check(options);
  });
  errors.throw_if_any();
  return options;
}

void check(const LaunchOptions& options) {
  config::ErrorList errors;
  errors.attempt([&] { launch_table().check(options); });
  std::vector<int64_t> devices;
  errors.attempt([&] { devices = device_numbers(options); });
  const auto count = static_cast<int64_t>(devices.size());
  errors.check(count <= kMaxRanksPerNode, "--gpus lists ", count, " devices; at most ", kMaxRanksPerNode,
               " ranks run on a node");
  errors.check(std::set<int64_t>(devices.begin(), devices.end()).size() == devices.size(), "--gpus ",
               options.gpus, " lists a device twice; every rank needs its own");
  errors.check(devices.empty() || !options.nproc_per_node || *options.nproc_per_node == count,
               "--nproc_per_node ", options.nproc_per_node.value_or(0), " and --gpus ", options.gpus, " (",
               counted(count, "device"), ") disagree; pass only one of them, or the same number");
  if (options.nnodes > 1) {
    errors.check(options.node_rank.has_value(), "--nnodes ", options.nnodes,
                 " needs --node_rank on every node: 0 to ", options.nnodes - 1);
    errors.check(options.master_addr.has_value(), "--nnodes ", options.nnodes,
                 " needs --master_addr: the name or address of node 0, the same on every node");
  }
  errors.check(options.node_rank.value_or(0) < options.nnodes, "--node_rank must be in [0, ",
               options.nnodes - 1, "] with --nnodes ", options.nnodes, ", got ",
               options.node_rank.value_or(0));
  if (options.master_addr) {
    // An IPv6 address has two colons or more.
    const auto colons = std::count(options.master_addr->begin(), options.master_addr->end(), ':');
    errors.check(colons != 1, "--master_addr ", *options.master_addr,
                 " contains a port; pass the host as --master_addr and the port as --master_port");
  }
  errors.check(!options.command.empty(),
               "braid launch has nothing to run: add a command after the options, as in braid launch "
               "--nproc_per_node 2 pretrain ...");
  errors.throw_if_any();
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
