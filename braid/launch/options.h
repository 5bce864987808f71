// The options of `braid launch`: what to start, how often, and where its output goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/config/option_table.h"

namespace braid::launch {

/// Ranks of one node are numbered from 0 (local rank); all nodes start the same number of them.
struct LaunchOptions {
  std::optional<int64_t> nproc_per_node{};  // nothing: as many as `gpus`, or 1
  std::string gpus{};                       // comma-separated device numbers; empty: the rank chooses
  int64_t nnodes = 1;
  std::optional<int64_t> node_rank{};        // nothing: 0, allowed on one node only
  std::optional<std::string> master_addr{};  // nothing: loopback, allowed on one node only
  std::optional<int64_t> master_port{};  // nothing: a free port on one node, kDefaultMasterPort on several
  std::string secret_file{};             // empty: the environment, or on one node a secret made for this run
  std::string log_dir{};                 // empty: no log files
  std::string master{};                  // HOST:PORT in place of the two; empty once they are set
  std::vector<std::string> unused{};     // options of Paddle's launcher that were given and change nothing
  std::vector<std::string> command{};    // of braid and its arguments; or the path of another program and its

  bool operator==(const LaunchOptions&) const = default;
};

/// torchrun's and c10d's usual rendezvous port.
inline constexpr int64_t kDefaultMasterPort = 29500;

/// More ranks on one node are considered a mistake; two file descriptors per rank stay below the usual limit
/// of 1024.
inline constexpr int64_t kMaxRanksPerNode = 256;

/// Whether the command is a program of the user's own: its path has a slash.
bool is_own_program(const LaunchOptions& options);

/// The options of `braid launch`: help, checks and documentation derive from this table.
config::OptionTable<LaunchOptions> launch_table();

/// The options in `words` (what follows `braid launch`), or nothing if they ask for help. Options precede the
/// command (`--name value` or `--name=value`, dashes and underscores alike); the first other word is the
/// command, and it and everything after it are `command`. Throws ConfigError like `check`, and for an
/// unknown, repeated or incomplete option.
std::optional<LaunchOptions> parse_launch_options(const std::vector<std::string>& words);

/// Throws ConfigError if the options contradict each other, are out of range, or name nothing to run.
void check(const LaunchOptions& options);

/// The devices that `gpus` lists, one per local rank; empty if `gpus` is. Throws ConfigError if it is not a
/// list of numbers.
std::vector<int64_t> device_numbers(const LaunchOptions& options);

/// The number of ranks that this node starts.
int64_t ranks_per_node(const LaunchOptions& options);

/// The output of `braid launch --help`.
std::string launch_help();

}  // namespace braid::launch
