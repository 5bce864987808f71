// From the arguments of `braid pretrain` to settings that can be used.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/model_config.h"
#include "braid/config/options.h"

namespace braid::config {

struct PretrainCommand {
  PretrainOptions options;
  /// Settings given that make no difference in this run, each with the reason; to be printed at the start.
  std::vector<std::string> notes;
};

/// The options that `[FILE] [--flag value]...` gives, validated. Reads FILE (YAML or JSON) where the first
/// argument is not a flag. Throws ConfigError for everything that is unknown, not allowed, contradictory or
/// not carried out by this version.
PretrainCommand parse_pretrain(std::span<const std::string> arguments);

/// Throws ConfigError, which names the options, the rule and the values, unless the options can be carried
/// out together.
void validate(const PretrainOptions& options);

/// Throws ConfigError unless a world of this many ranks fits the options: one rank a stage, since there is no
/// data parallelism.
void require_world_size(const PretrainOptions& options, int64_t world_size);

/// pipeline_parallel_degree, 1 where it is off.
int64_t pipeline_ranks(const PretrainOptions& options);

/// Chunks that each pipeline rank holds: virtual_pp_degree, or what the schedule mode always has. A CSV file
/// decides for itself.
int64_t pipeline_chunks(const PretrainOptions& options);

/// The path in pipeline_schedule_mode csv:FILE; nothing for a mode by name.
std::optional<std::string> schedule_file(const PretrainOptions& options);

/// First and last step to profile, counted from 1. Throws ConfigError unless `text` is A,B with 1 <= A <= B.
std::array<int64_t, 2> profiled_steps(std::string_view text);

/// Steps of warm-up: warmup_steps, or the share warmup_ratio of max_steps, which may be a fraction; 0 for a
/// constant curve.
double warmup_steps(const PretrainOptions& options);

/// The step at which the learning rate has come down to its minimum: decay_steps, or max_steps.
int64_t decay_steps(const PretrainOptions& options);

/// data_seed, or seed.
int64_t data_seed(const PretrainOptions& options);

/// The weights of the training, validation and test parts, not negative, summing to 1.
/// Throws ConfigError unless `text` is 1 to 3 numbers separated by "," or "/" with a positive sum; missing
/// ones are 0.
std::array<double, 3> split_weights(std::string_view text);

/// The model to train: model_name_or_path's configuration with the overrides, validated. A fresh model gets
/// room for max_seq_length positions, and for `tokenizer_pieces` (rounded up to a multiple of 128) unless
/// vocab_size is given. Throws ConfigError where the tokenizer's pieces or max_seq_length do not fit a model
/// that is given, where overrides contradict weights to be continued from, where there are fewer layers than
/// stages, and what load_model_config throws.
ModelConfig resolve_model(const PretrainOptions& options,
                          std::optional<int64_t> tokenizer_pieces = std::nullopt);

}  // namespace braid::config
