// Gradient clipping by the norm over all parameters of the model.
#pragma once

#include <functional>

#include "braid/base/exact_sum.h"
#include "braid/tensor/segment.h"

namespace braid::optim {

/// Adds the squares of this rank's part of the segment's gradients, of those members that `counts` accepts,
/// summed in float64 within each unit of tensor::kSegmentUnit elements and exactly beyond: the total over all
/// parts of all segments is the same, bit for bit, however the model is cut and divided. Local.
void add_squares(const tensor::Segment& segment, const std::function<bool(const tensor::Parameter&)>& counts,
                 ExactSum& sum);

/// The factor for the gradients that limits their norm to `max_norm`: max_norm / (norm + 1e-6), at most 1; 1
/// if max_norm is 0, which turns clipping off. A NaN or infinite norm gives NaN or 0: callers check the norm
/// first.
double clip_coefficient(double norm, double max_norm);

}  // namespace braid::optim
