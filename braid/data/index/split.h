// The three parts of the data, and their ranges in a file according to --split.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace braid::data {

enum class Part : uint8_t { kTrain, kValid, kTest };

/// "train", "valid", "test".
std::string_view name_of(Part part);

/// Sequences [begin, end) of a file.
struct SequenceRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const SequenceRange&) const = default;
};

/// The weights of train, valid and test, summing to 1.
using SplitWeights = std::array<double, 3>;

/// Parses 1 to 3 numbers separated by "," or "/"; missing numbers are 0. Throws ConfigError for anything else
/// and for numbers that are negative, not finite, or all 0.
SplitWeights parse_split(std::string_view text);

/// Contiguous ranges for train, valid and test over [0, sequences): each boundary is the cumulative weight
/// times `sequences`, rounded half to even. Source: megatron/core/datasets (megatron-core; older Megatron and
/// PaddleNLP round differently, by a sequence or two).
std::array<SequenceRange, 3> split_ranges(const SplitWeights& weights, int64_t sequences);

}  // namespace braid::data
