// From the arguments of `braid pretrain` to validated settings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/options.h"
#include "braid/config/run_options.h"

namespace braid::config {

struct PretrainCommand {
  PretrainOptions options;
  RunOptions run;  ///< what the options mean
  /// Given settings that have no effect in this run, each with the reason; printed at the start.
  std::vector<std::string> notes;
};

/// The options given by `[FILE] [--flag value]...`, validated. Reads FILE (YAML or JSON) if the first
/// argument is not a flag, and the strategy's file. `world_size` is the number of ranks of the job; a dry run
/// of one rank, or without it, plans for as many ranks as the degrees say. Throws ConfigError for options
/// that are unknown, not allowed, contradictory or not supported by this version.
PretrainCommand parse_pretrain(std::span<const std::string> arguments,
                               std::optional<int64_t> world_size = std::nullopt);

/// Throws ConfigError, naming the options, the rule and the values, unless the options are valid together.
void validate(const PretrainOptions& options);

/// Whether the plan is printed instead of run; it is the plan of a training, with or without do_train.
bool is_dry_run(const PretrainOptions& options);

/// pipeline_parallel_degree, or 1 if it is off.
int64_t pipeline_ranks(const PretrainOptions& options);

/// Chunks per pipeline rank: virtual_pp_degree, or the fixed number of the schedule mode. A CSV file defines
/// its own.
int64_t pipeline_chunks(const PretrainOptions& options);

/// The path in pipeline_schedule_mode csv:FILE; nothing for a named mode.
std::optional<std::string> schedule_file(const PretrainOptions& options);

/// First and last step to profile, counted from 1. Throws ConfigError unless `text` is A,B with 1 <= A <= B.
std::array<int64_t, 2> profiled_steps(std::string_view text);

/// Warm-up steps, possibly fractional: warmup_steps, or warmup_ratio times max_steps; 0 for a constant
/// learning rate.
double warmup_steps(const PretrainOptions& options);

/// The step at which the learning rate reaches its minimum: decay_steps, or max_steps.
int64_t decay_steps(const PretrainOptions& options);

/// data_seed, or seed.
int64_t data_seed(const PretrainOptions& options);

/// The weights of the training, validation and test sets, not negative and summing to 1. Throws ConfigError
/// unless `text` is 1 to 3 numbers separated by "," or "/" with a positive sum; missing weights are 0.
std::array<double, 3> split_weights(std::string_view text);

}  // namespace braid::config
