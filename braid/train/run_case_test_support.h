// For tests: small runs with ranks as threads, and what has to be the same in them.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "braid/config/options.h"
#include "braid/train/pretrain.h"

namespace braid::train {

struct RunCase {
  int pp = 1;
  std::string mode = "1F1B";
  int64_t microbatches = 2;
  bool bf16 = false;
  bool tied = false;
  bool overlap = false;
  int64_t chunks = 1;
  double max_grad_norm = 0.5;
  double segment_broadcast_mb = 32;
  std::string segment_anchors = {};
  int mp = 1;
  bool sequence_parallel = false;
  std::string recompute = {};  ///< a granularity, or empty
  std::vector<int64_t> no_recompute_layers = {};
  bool early_weight_gradients = false;
  std::optional<int64_t> memory_limit = {};  ///< bytes
};

std::ostream& operator<<(std::ostream& out, const RunCase& c);

config::ModelConfig tiny_model(bool tied);
config::PretrainOptions options_of(const RunCase& c, const std::filesystem::path& output);

struct RunResult {
  PretrainSummary summary;                    // rank 0's
  std::map<std::string, at::Tensor> weights;  // as exported
  std::vector<nlohmann::json> metrics;
  std::vector<std::string> lines;  // rank 0's log
};

RunResult run_case(const RunCase& c);

/// Losses, norms, evaluations and weights.
void expect_same_bits(const RunResult& got, const RunResult& expected);

/// Runs every schedule mode on 1, 2 and 4 ranks with 1 and 2 chunks, wherever the mode supports the shape,
/// and holds each against FThenB on one rank. Returns how many runs that were.
int expect_same_bits_for_every_schedule(int64_t microbatches, bool bf16);

}  // namespace braid::train
