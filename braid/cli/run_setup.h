// What a pretraining run checks, says and holds before it meets the other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "braid/base/output_lock.h"
#include "braid/cli/run.h"
#include "braid/comm/agreement.h"
#include "braid/comm/world.h"
#include "braid/config/model_config.h"
#include "braid/config/options.h"

namespace braid::cli {

/// What this rank's place is and which launcher's variables gave it, for the log.
std::string place_text(const comm::World& world);

/// Variables that nearly have the name of one of braid's, each with the name that may be meant, for the log.
std::vector<std::string> misspelt_variables(const CommandContext& context);

/// Compute threads of a rank: `num_threads`, or if it is 0 OMP_NUM_THREADS, or 1. Throws ConfigError naming
/// the variable if it is none.
int64_t compute_threads(const CommandContext& context, int64_t num_threads);

/// That `threads` are more than the cores that this rank may use; nothing if they are not.
std::optional<std::string> too_many_threads(int64_t threads, int64_t cores);

/// Throws ConfigError if GLOO_SOCKET_IFNAME (CPUs) or NCCL_SOCKET_IFNAME (GPUs) names no interface of this
/// machine. Nothing is checked for a single rank.
void check_interface_variables(const CommandContext& context, const comm::World& world,
                               std::string_view device);

/// Creates --output_dir. Throws ConfigError if it holds an earlier run that the options do not replace,
/// OutputError if it cannot be created. For every rank, before the ranks meet.
void prepare_output_dir(const config::PretrainOptions& options);

/// Holds --output_dir against other runs, for as long as the result lives; `line` receives a note if its file
/// system cannot. For rank 0, before anything is written there, and once the ranks have met: that a rank was
/// started twice is found there, with a better message. Throws ConfigError if another process writes there,
/// and what prepare_output_dir does.
std::unique_ptr<OutputLock> hold_output_dir(const config::PretrainOptions& options,
                                            const std::function<void(const std::string&)>& line);

/// The names and values in the text of OptionTable::print_back.
std::vector<std::pair<std::string, std::string>> settings_of(std::string_view printed);

/// What this rank must agree on with all others. Where the run spans machines, the first rank of each reads
/// the files that `options` name.
comm::Introduction introduction_of(const config::PretrainOptions& options, const config::ModelConfig& model,
                                   const comm::World& world);

}  // namespace braid::cli
