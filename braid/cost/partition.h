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

/// The decoder layers of each stage, in order, every layer on exactly one and at least one on each, such that
/// the dearest stage is as cheap as it can be. `unit_costs` are those of embedding, each decoder layer, head:
/// the embedding goes with the first stage, the head with the last. Among equally good cuts the one with the
/// least sum of squared stage costs is taken, and among those the one whose first stages have fewer layers,
/// since they hold more microbatches. The same on every rank: costs are rounded to 2^-30 of their sum first,
/// and all else is integers.
/// Throws ConfigError unless 1 <= stages <= decoder layers, or if a cost is negative or not finite.
std::vector<StageLayers> partition(std::span<const double> unit_costs, int64_t stages);

}  // namespace braid::cost
