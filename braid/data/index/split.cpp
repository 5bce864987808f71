#include "braid/data/index/split.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::data {

std::string_view name_of(Part part) {
  switch (part) {
    case Part::kTrain:
      return "train";
    case Part::kValid:
      return "valid";
    case Part::kTest:
      return "test";
  }
  throw InternalError(cat("part ", static_cast<int>(part), " does not exist"));
}

SplitWeights parse_split(std::string_view text) {
  constexpr std::string_view kForm =
      "pass 1 to 3 numbers for train, valid and test, separated by \",\" or \"/\", such as 949,50,1";
  const char separator = text.find('/') != std::string_view::npos ? '/' : ',';
  const std::vector<std::string> pieces = braid::split(text, separator);
  require<ConfigError>(pieces.size() <= 3, "split must not have more than 3 numbers, got \"", text,
                       "\": ", kForm);
  SplitWeights weights{};
  double sum = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::optional<double> value = parse_double(trim(pieces[i]));
    require<ConfigError>(value.has_value(), "split has \"", pieces[i], "\" instead of a number in \"", text,
                         "\": ", kForm);
    require<ConfigError>(std::isfinite(*value) && *value >= 0, "split must have finite numbers >= 0, got \"",
                         text, "\": ", kForm);
    weights[i] = *value;
    sum += *value;
  }
  require<ConfigError>(sum > 0 && std::isfinite(sum), "split must have a sum above 0, got \"", text,
                       "\": ", kForm);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::array<SequenceRange, 3> split_ranges(const SplitWeights& weights, int64_t sequences) {
  std::array<SequenceRange, 3> ranges{};
  double cumulative = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    cumulative += weights[i];
    // nearbyint rounds half to even in the default rounding mode, as Python's round does.
    const auto end = static_cast<int64_t>(std::nearbyint(cumulative * static_cast<double>(sequences)));
    ranges[i] = {begin, end};
    begin = end;
  }
  return ranges;
}

}  // namespace braid::data
