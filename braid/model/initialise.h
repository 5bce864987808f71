// The initial values of a new model.
#pragma once

#include <cstdint>
#include <span>

#include "braid/tensor/parameter.h"

namespace braid::model {

struct InitialiseOptions {
  double deviation = 0.02;  ///< of the normal values
  uint64_t seed = 0;
};

/// Fills `parameters`, which are allocated, according to their InitialValues; given ones are kept. A normal
/// value depends only on the seed, the tensor's name and the element's index in the whole tensor, so a model
/// begins with the same weights however it is cut into stages and its tensors into slices. Computed on the
/// CPU, so that every device has the same values.
void initialise(std::span<tensor::Parameter* const> parameters, const InitialiseOptions& options);

}  // namespace braid::model
