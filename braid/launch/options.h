// The options of `braid launch`: what is started, how often, and where its output goes.
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
  std::string gpus{};                       // device numbers with commas between; empty: the rank chooses
  int64_t nnodes = 1;
  std::optional<int64_t> node_rank{};        // nothing: 0, allowed on one node only
  std::optional<std::string> master_addr{};  // nothing: loopback, allowed on one node only
  std::optional<int64_t> master_port{};  // nothing: a free port on one node, kDefaultMasterPort on several
  std::string log_dir{};                 // empty: no log files
  std::vector<std::string> command{};    // of braid and its arguments; or the path of another program and its

  bool operator==(const LaunchOptions&) const = default;
};

/// torchrun's and c10d's usual rendezvous port.
inline constexpr int64_t kDefaultMasterPort = 29500;

/// One rank more than this on one node is taken for a slip; two file descriptors a rank stay below the usual
/// limit of 1024.
inline constexpr int64_t kMaxRanksPerNode = 256;

/// Whether the command is a program of the user's own: its path has a slash.
bool is_own_program(const LaunchOptions& options);

/// The options of `braid launch`: help, checks and documentation come from it.
config::OptionTable<LaunchOptions> launch_table();

/// The options in `words` (what follows `braid launch`), or nothing if they ask for help. Options stand
/// before the command
/// (`--name value` or `--name=value`, dashes and underscores alike); the first other word is the command, and
/// it and all after it are `command`. Throws ConfigError as `check` does, and for an unknown, repeated or
/// incomplete option.
std::optional<LaunchOptions> parse_launch_options(const std::vector<std::string>& words);

/// Throws ConfigError if the options contradict each other, leave their range, or name nothing to run.
void check(const LaunchOptions& options);

/// The devices that `gpus` lists, one per local rank; empty if it is. Throws ConfigError if it is no list of
/// numbers.
std::vector<int64_t> device_numbers(const LaunchOptions& options);

/// How many ranks this node starts.
int64_t ranks_per_node(const LaunchOptions& options);

/// What `braid launch --help` prints.
std::string launch_help();

}  // namespace braid::launch
