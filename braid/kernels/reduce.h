// Sums whose result depends only on the numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/base/exact_sum.h"

namespace braid::kernels {

/// The elements whose squares add_squares sums in float64.
inline constexpr int64_t kSquaresBlock = 256;

/// Adds the squares of t's elements: each block of kSquaresBlock summed in float64, the blocks exactly.
/// Tensors that divide a longer one at multiples of the block give the same sum together. t: float32,
/// bfloat16 or float64, contiguous, any shape; a whole number of blocks. Throws ShapeError otherwise.
void add_squares(const at::Tensor& t, ExactSum& sum);

}  // namespace braid::kernels
