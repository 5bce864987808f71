// The values that a fresh model begins with.
#pragma once

#include <cstdint>
#include <span>

#include "braid/tensor/parameter.h"

namespace braid::model {

struct InitialiseOptions {
  double deviation = 0.02;  ///< of the normal values
  uint64_t seed = 0;
};

/// Fills `parameters`, which have memory, as their InitialValues say; given ones stay. A normal value depends
/// on the seed, the tensor's name and the element's index in the whole tensor alone, so however a model is
/// cut into stages, and a tensor into slices, it begins with the same weights. Made on the CPU, the same for
/// every device.
void initialise(std::span<tensor::Parameter* const> parameters, const InitialiseOptions& options);

}  // namespace braid::model
