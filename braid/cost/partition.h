// Cutting a model into pipeline stages of equal cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braid::cost {

/// Decoder layers [first_layer, end_layer) of one stage.
struct StageLayers {
  int64_t first_layer = 0;
  int64_t end_layer = 0;
  int64_t size() const { return end_layer - first_layer; }
  bool operator==(const StageLayers&) const = default;
};

/// The decoder layers of each stage, in order: every layer on exactly one stage and at least one on each, in
/// the cut that minimises the cost of the most expensive stage. `unit_costs` are those of embedding, each
/// decoder layer, head: the embedding goes with the first stage, the head with the last. Ties are broken by
/// the least sum of squared stage costs, and then in favour of fewer layers on the first stages, since these
/// hold more microbatches. The same on every rank: costs are first rounded to 2^-30 of their sum, and
/// everything else is integer arithmetic.
/// Throws ConfigError unless 1 <= stages <= decoder layers, or if a cost is negative or not finite.
std::vector<StageLayers> partition(std::span<const double> unit_costs, int64_t stages);

}  // namespace braid::cost
