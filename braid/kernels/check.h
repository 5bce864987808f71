// Checks of tensor arguments, with the argument's name in the message.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace braid::kernels {

/// "[4, 512] bfloat16 cpu", or "undefined".
std::string describe(const at::Tensor& t);

/// The dtype of sums: float64 for float64, float32 for float32, bfloat16 and float16.
at::ScalarType wide_dtype(const at::Tensor& t);

/// Each throws ShapeError unless `t` ...
/// ... is a defined, contiguous float32, bfloat16, float16 or float64 tensor.
void require_floating(const at::Tensor& t, std::string_view name);
/// ... is the same, with two dimensions.
void require_matrix(const at::Tensor& t, std::string_view name);
/// ... is contiguous, of this dtype and exactly these sizes, on the device of `like`.
void require_tensor(const at::Tensor& t, std::string_view name, at::IntArrayRef sizes, at::ScalarType dtype,
                    const at::Tensor& like);

}  // namespace braid::kernels
