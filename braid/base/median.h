// Median of measurements.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace braid {

/// The median of `values`; of an even number, the upper one. Not checked: `values` is not empty.
template <typename Value>
Value median(std::vector<Value> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace braid
