// The median of measurements.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace braid {

/// The middle one of `values`, the higher of two. Not checked: there is one.
template <typename Value>
Value median(std::vector<Value> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace braid
