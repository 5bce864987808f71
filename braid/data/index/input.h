// Parsing of --input_dir: a directory, one prefix, or weights and prefixes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid::data {

/// A pair of token files <prefix>.bin and <prefix>.idx, and its share of the mixture.
struct WeightedPrefix {
  double weight = 1.0;
  std::string prefix;
  bool operator==(const WeightedPrefix&) const = default;
};

/// The files given by `input`: every *.idx of a directory, sorted by name, each with weight 1; or the prefix
/// of one pair, with or without .bin or .idx; or "weight prefix weight prefix ...". Checks names only; the
/// reader checks the contents. Throws ConfigError, naming what was found instead, if a directory has no .idx,
/// a prefix does not exist, or the list does not consist of such pairs.
std::vector<WeightedPrefix> parse_input(std::string_view input);

}  // namespace braid::data
