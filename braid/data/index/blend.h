// Mixing several files by weight: the file that provides sample i, and its sample there.
// Source: megatron/core/datasets (build_blending_indices).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braid::data {

/// The order in which the samples of several datasets are drawn.
struct Blend {
  std::vector<uint16_t> dataset;  // for each sample of the mixture, its dataset
  std::vector<int64_t> sample;    // and its number in that dataset: 0, 1, 2, ...
  std::vector<int64_t> drawn;     // for each dataset, the number of samples drawn from it

  int64_t size() const { return static_cast<int64_t>(dataset.size()); }
};

/// Weights summing to 1, proportional to `weights`, with the rounding of numpy's sum, since the order of a
/// mixture can depend on the last bit. Throws ConfigError unless all are finite and above 0.
std::vector<double> normalized_weights(std::span<const double> weights);

/// Draws `total` samples. Sample i comes from the dataset furthest behind its share, that is, with the
/// greatest weight * max(i, 1) - drawn so far; ties go to the first. `weights` sum to 1. Throws ConfigError
/// for more than 65535 datasets.
Blend build_blend(std::span<const double> weights, int64_t total);

/// The number of samples to prepare from a dataset with `weight` (of 1) in a mixture of `total`: its share
/// rounded up, plus 0.5%, rounded up.
int64_t samples_for_weight(double weight, int64_t total);

}  // namespace braid::data
