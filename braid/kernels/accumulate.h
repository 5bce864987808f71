// Whether a weight gradient replaces the contents of the main gradient or is added to them.
#pragma once

#include <cstdint>

namespace braid::kernels {

/// A step's first microbatch overwrites, so that the main gradients need not be zeroed; the later ones add.
enum class Accumulate : uint8_t { kOverwrite, kAdd };

}  // namespace braid::kernels
