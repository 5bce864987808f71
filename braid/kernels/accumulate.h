// Whether a weight gradient replaces what stands in the main gradient or is added to it.
#pragma once

#include <cstdint>

namespace braid::kernels {

/// A step's first microbatch overwrites, so that nobody has to zero the main gradients; the later ones add.
enum class Accumulate : uint8_t { kOverwrite, kAdd };

}  // namespace braid::kernels
