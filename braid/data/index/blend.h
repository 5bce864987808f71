// Mixing several files by weight: which file gives sample i, and which of its samples.
// Source: megatron/core/datasets (build_blending_indices).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braid::data {

/// The order in which the samples of several datasets are drawn.
struct Blend {
  std::vector<uint16_t> dataset;  // for each sample of the mixture, the dataset it comes from
  std::vector<int64_t> sample;    // and its number there: 0, 1, 2, ... for each dataset
  std::vector<int64_t> drawn;     // for each dataset, how many samples it gives

  int64_t size() const { return static_cast<int64_t>(dataset.size()); }
};

/// Weights summing to 1, in proportion to `weights`, with the rounding of numpy's sum, since the order of a
/// mixture can hang on the last bit. Throws ConfigError unless all are finite and above 0.
std::vector<double> normalized_weights(std::span<const double> weights);

/// Draws `total` samples. Sample i comes from the dataset that is furthest behind its share, the one with the
/// greatest weight * max(i, 1) - drawn so far; of equals, the first. `weights` sum to 1. Throws ConfigError
/// for more than 65535 datasets.
Blend build_blend(std::span<const double> weights, int64_t total);

/// How many samples to prepare of a dataset with `weight` (of 1) in a mixture of `total`: its share rounded
/// up, and 0.5% more rounded up.
int64_t samples_for_weight(double weight, int64_t total);

}  // namespace braid::data
