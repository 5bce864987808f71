#include "braid/data/index/blend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "braid/base/error.h"

namespace braid::data {
namespace {

// The summation order of numpy.sum for doubles: eight interleaved sums up to 128 numbers, halves beyond.
double pairwise_sum(std::span<const double> values) {
  if (values.size() > 128) {
    const size_t half = values.size() / 2 / 8 * 8;
    return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
  }
  if (values.size() < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  std::array<double, 8> r{};
  const size_t whole = values.size() / 8 * 8;
  for (size_t i = 0; i < whole; ++i) r[i % 8] += values[i];
  const double eight = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  return std::accumulate(values.begin() + static_cast<int64_t>(whole), values.end(), eight);
}

}  // namespace

std::vector<double> normalized_weights(std::span<const double> weights) {
  for (const double weight : weights) {
    require<ConfigError>(std::isfinite(weight) && weight > 0,
                         "the weight of a data file must be above 0, got ", weight);
  }
  const double sum = pairwise_sum(weights);
  require<ConfigError>(std::isfinite(sum), "the sum of the weights of the data files is too large");
  std::vector<double> result(weights.begin(), weights.end());
  for (double& weight : result) weight /= sum;
  return result;
}

Blend build_blend(std::span<const double> weights, int64_t total) {
  require<ConfigError>(weights.size() <= std::numeric_limits<uint16_t>::max(), "at most ",
                       std::numeric_limits<uint16_t>::max(), " data files can be mixed, got ",
                       weights.size());
  require<InternalError>(!weights.empty() && total >= 0, "a blend of ", weights.size(), " datasets and ",
                         total, " samples");
  Blend blend;
  blend.dataset.resize(static_cast<size_t>(total));
  blend.sample.resize(static_cast<size_t>(total));
  blend.drawn.assign(weights.size(), 0);
  for (size_t i = 0; i < blend.dataset.size(); ++i) {
    const double so_far = std::max(static_cast<double>(i), 1.0);
    size_t furthest = 0;
    double greatest = -std::numeric_limits<double>::infinity();
    for (size_t d = 0; d < weights.size(); ++d) {
      const double behind = weights[d] * so_far - static_cast<double>(blend.drawn[d]);
      if (behind > greatest) {
        greatest = behind;
        furthest = d;
      }
    }
    blend.dataset[i] = static_cast<uint16_t>(furthest);
    blend.sample[i] = blend.drawn[furthest]++;
  }
  return blend;
}

int64_t samples_for_weight(double weight, int64_t total) {
  return static_cast<int64_t>(std::ceil(std::ceil(static_cast<double>(total) * weight) * 1.005));
}

}  // namespace braid::data
