// Gradient clipping by the norm over all parameters of the model.
#pragma once

#include <span>
#include <vector>

#include "braid/tensor/parameter.h"

namespace braid::optim {

/// The squared norm of each parameter's main gradient, in float64. Deterministic; local.
std::vector<double> squared_norms(const std::vector<tensor::Parameter*>& parameters);

/// The square root of the sum of `squared_norms` of the whole model, summed in the given order: a fixed order
/// of parameters, so that the result does not depend on which rank holds which.
double gradient_norm(std::span<const double> squared_norms);

/// The factor for the gradients that limits their norm to `max_norm`: max_norm / (norm + 1e-6), at most 1; 1
/// if max_norm is 0, which turns clipping off. A NaN or infinite norm gives NaN or 0: callers check the norm
/// first.
double clip_coefficient(double norm, double max_norm);

}  // namespace braid::optim
