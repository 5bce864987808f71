// Sums whose result depends only on the numbers.
#pragma once

#include <ATen/core/Tensor.h>

namespace braid::kernels {

/// Sum of the squares of all elements, in float64. Blocks of fixed size are summed in a fixed order, so the
/// number of threads does not matter. t: float32, bfloat16 or float64, contiguous, any shape. Throws
/// ShapeError otherwise.
double squared_norm(const at::Tensor& t);

}  // namespace braid::kernels
