// Helpers that every layer uses: rows of a [b, s, H] tensor, and how the next contribution is accumulated in
// a main gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include "braid/kernels/accumulate.h"
#include "braid/tensor/parameter.h"

namespace braid::layers {

/// x [b, s, H] viewed as [b * s, H]. No copy.
at::Tensor as_rows(const at::Tensor& x);

/// rows [b * s, N] viewed as [b, s, N], with b and s of `like`. No copy.
at::Tensor from_rows(const at::Tensor& rows, const at::Tensor& like);

/// kOverwrite for the first contribution of a step, kAdd afterwards; records that the gradient has started.
kernels::Accumulate start_gradient(tensor::Parameter& parameter);

}  // namespace braid::layers
