// The three matrix products of a linear layer: forward, gradient of the input, gradient of the weight.
//
// K = input features, N = output features. All tensors are contiguous matrices on one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "braid/kernels/accumulate.h"

namespace braid::kernels {

/// x @ weight^T.
///
///   x_TK       [T, K]  float32, bfloat16 or float64
///   weight_NK  [N, K]  dtype of x
///   out        [T, N]  dtype of x, written if given; a new tensor otherwise
///
/// Throws ShapeError if the shapes do not match.
at::Tensor linear(const at::Tensor& x_TK, const at::Tensor& weight_NK,
                  const std::optional<at::Tensor>& out = std::nullopt);

/// dy @ weight: [T, N] @ [N, K] -> [T, K]. `out` and errors as for linear.
at::Tensor linear_backward_input(const at::Tensor& dy_TN, const at::Tensor& weight_NK,
                                 const std::optional<at::Tensor>& out = std::nullopt);

/// main_grad (+)= dy^T @ x, summed in float32 (float64 for float64), with no temporary of the weight's size.
///
///   dy_TN         [T, N]  float32, bfloat16 or float64
///   x_TK          [T, K]  dtype of dy
///   main_grad_NK  [N, K]  float32, or float64 for float64
///
/// Throws ShapeError if the shapes do not match.
void accumulate_weight_gradient(const at::Tensor& dy_TN, const at::Tensor& x_TK,
                                const at::Tensor& main_grad_NK, Accumulate mode);

}  // namespace braid::kernels
