#include "braid/cost/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "braid/base/error.h"

namespace braid::cost {
namespace {

// prefix[i]: cost of decoder layers [0, i), with the embedding in the first layer's and the head in the last
// one's. Every stage has a layer, so the two always stay with those.
std::vector<int64_t> prefix_costs(std::span<const double> unit_costs) {
  double sum = 0;
  for (const double cost : unit_costs) {
    require<ConfigError>(std::isfinite(cost) && cost >= 0,
                         "a layer's cost must be finite and not negative, got ", cost);
    sum += cost;
  }
  require<ConfigError>(std::isfinite(sum), "the layers' costs are too large to add up");
  // 2^30: the square of the whole then fits into 62 bits.
  const double scale = sum > 0 ? 1073741824.0 / sum : 0;
  const auto rounded = [&](double cost) { return static_cast<int64_t>(std::llround(cost * scale)); };
  const size_t layers = unit_costs.size() - 2;
  std::vector<int64_t> prefix(layers + 1);
  for (size_t i = 0; i < layers; ++i) prefix[i + 1] = prefix[i] + rounded(unit_costs[i + 1]);
  for (size_t i = 1; i <= layers; ++i) prefix[i] += rounded(unit_costs.front());
  prefix[layers] += rounded(unit_costs.back());
  return prefix;
}

// The number of stages needed if none may cost more than `limit`, each filled before the next begins. A cut
// into fewer stages can always be cut further without making any stage more expensive.
int64_t stages_needed(const std::vector<int64_t>& prefix, int64_t limit) {
  int64_t stages = 0;
  size_t first = 0;
  while (first + 1 < prefix.size()) {
    size_t end = first + 1;
    if (prefix[end] - prefix[first] > limit) return std::numeric_limits<int64_t>::max();
    while (end + 1 < prefix.size() && prefix[end + 1] - prefix[first] <= limit) ++end;
    first = end;
    ++stages;
  }
  return stages;
}

int64_t least_limit(const std::vector<int64_t>& prefix, int64_t stages) {
  int64_t low = 0;
  int64_t high = prefix.back();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (stages_needed(prefix, middle) <= stages) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

std::vector<StageLayers> partition(std::span<const double> unit_costs, int64_t stages) {
  require<ConfigError>(unit_costs.size() >= 3,
                       "a model needs an embedding, a decoder layer and a head to be cut, got ",
                       unit_costs.size(), " costs");
  const auto layers = static_cast<int64_t>(unit_costs.size()) - 2;
  require<ConfigError>(stages >= 1 && stages <= layers, "a model of ", layers,
                       " decoder layers cannot be cut into ", stages, " stages: every stage needs one");
  const std::vector<int64_t> prefix = prefix_costs(unit_costs);
  const int64_t limit = least_limit(prefix, stages);

  // best[k][i]: least sum of squares of layers [i, layers) in k stages within the limit; cut[k][i]: end of
  // the first of them.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const auto n = static_cast<size_t>(layers);
  std::vector<std::vector<int64_t>> best(static_cast<size_t>(stages) + 1, std::vector<int64_t>(n + 1, kNone));
  std::vector<std::vector<size_t>> cut(static_cast<size_t>(stages) + 1, std::vector<size_t>(n + 1, 0));
  best[0][n] = 0;
  for (size_t k = 1; k <= static_cast<size_t>(stages); ++k) {
    for (size_t first = 0; first < n; ++first) {
      for (size_t end = first + 1; end <= n && prefix[end] - prefix[first] <= limit; ++end) {
        if (best[k - 1][end] == kNone) continue;
        const int64_t cost = prefix[end] - prefix[first];
        const int64_t total = cost * cost + best[k - 1][end];
        // Strictly less: among equal ones, the shortest first stage is kept.
        if (total < best[k][first]) {
          best[k][first] = total;
          cut[k][first] = end;
        }
      }
    }
  }

  std::vector<StageLayers> result;
  size_t first = 0;
  for (auto k = static_cast<size_t>(stages); k > 0; --k) {
    require<InternalError>(best[k][first] != kNone, "partition found no cut of ", layers, " layers into ",
                           stages);
    result.push_back({static_cast<int64_t>(first), static_cast<int64_t>(cut[k][first])});
    first = cut[k][first];
  }
  return result;
}

}  // namespace braid::cost
