#include "braid/optim/clipping.h"

#include <algorithm>
#include <cmath>

#include "braid/kernels/reduce.h"

namespace braid::optim {

void add_squares(const tensor::Segment& segment, const std::function<bool(const tensor::Parameter&)>& counts,
                 ExactSum& sum) {
  static_assert(kernels::kSquaresBlock == tensor::kSegmentUnit);
  const tensor::SegmentLayout& layout = segment.layout;
  const std::vector<tensor::Parameter*>& members = layout.members;
  for (size_t first = 0; first < members.size();) {
    const bool counted = counts(*members[first]);
    size_t end = first + 1;
    while (end < members.size() && counts(*members[end]) == counted) ++end;
    const int64_t run_end = end < members.size() ? layout.offsets[end] : layout.numel;
    const int64_t begin = std::max(layout.offsets[first], segment.own.begin);
    const int64_t count = std::min(run_end, segment.own.end) - begin;
    first = end;
    if (counted && count > 0) {
      kernels::add_squares(segment.own_gradients.narrow(0, begin - segment.own.begin, count), sum);
    }
  }
}

double clip_coefficient(double norm, double max_norm) {
  constexpr double kEpsilon = 1e-6;
  return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + kEpsilon));
}

}  // namespace braid::optim
