// What a run is to do, in braid's own terms. PaddleNLP's options are translated into this once; nothing else
// knows them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "braid/config/strategy.h"
#include "braid/config/training_options.h"

namespace braid::config {

struct PretrainOptions;

enum class Device : uint8_t { kCpu, kCuda };

/// A pretraining run.
struct RunOptions {
  Strategy strategy;
  TrainingOptions training;
  Device device = Device::kCpu;
  std::chrono::seconds timeout{300};  ///< of every wait for another rank

  int64_t seed = 42;                           ///< of random initial weights
  std::optional<std::string> initial_weights;  ///< a model's directory. Unset: random ones

  std::optional<std::string> input_dir;  ///< unset: random tokens
  std::string split = "949,50,1";
  int64_t data_seed = 42;

  int64_t evaluation_steps = 1;             ///< between evaluations
  int64_t evaluation_microbatches = 0;      ///< 0: the run does not evaluate
  bool evaluates_small_part_whole = false;  ///< rather than evaluation_microbatches of it

  int64_t logging_steps = 1;
  std::optional<std::array<int64_t, 2>> profiled_steps;  ///< the first and the last, counted from 1
  std::string output_dir;
  bool exports_model = true;

  friend bool operator==(const RunOptions&, const RunOptions&) = default;
};

/// The run of `world_size` ranks that `options`, which must be valid, describe; without it, that of as many
/// ranks as the given degrees say. Reads the files that give a schedule or its times (not that of
/// options.strategy, whose content parse_pretrain has put into the other options). Throws ConfigError where
/// one cannot be read, is invalid or does not suit the pipeline, and where mesh_of does.
RunOptions run_options(const PretrainOptions& options, std::optional<int64_t> world_size = std::nullopt);

}  // namespace braid::config
