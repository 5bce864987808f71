// RMSNorm, alone or fused with the residual addition before it, and its two gradients.
//
// Shapes in this folder: T tokens (rows), H hidden size. Tensors are contiguous. "wide" is float64 for
// float64 tensors and float32 for all others; all arithmetic is wide, results are rounded once.
// Source: Zhang and Sennrich 2019, arXiv:1910.07467.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "braid/kernels/accumulate.h"

namespace braid::kernels {

struct RmsNormResult {
  at::Tensor y_TH;
  at::Tensor rstd_T;  // 1 / sqrt(mean(x^2) + eps) of each row, wide; needed by the backward functions
};

/// y = x * rstd * weight.
///
///   x_TH      [T, H]  float32, bfloat16 or float64
///   weight_H  [H]     dtype of x
///
/// Throws ShapeError if a shape, dtype or device does not match.
RmsNormResult rms_norm(const at::Tensor& x_TH, const at::Tensor& weight_H, double eps);

struct AddRmsNormResult {
  at::Tensor sum_TH;
  at::Tensor y_TH;
  at::Tensor rstd_T;
};

/// sum = x + branch (rounded to their dtype) and the RMSNorm of that sum, in one pass.
///
///   x_TH, branch_TH  [T, H]  same dtype
///   sum_out          where to write the sum; may be `branch_TH` or `x_TH` itself. A new tensor if absent.
///
/// Throws ShapeError like rms_norm.
AddRmsNormResult add_rms_norm(const at::Tensor& x_TH, const at::Tensor& branch_TH, const at::Tensor& weight_H,
                              double eps, const std::optional<at::Tensor>& sum_out = std::nullopt);

/// Gradient of the norm's input, plus the gradient that reaches the same input around the norm.
///
///   dy_TH, x_TH   [T, H]  same dtype; x as given to the norm
///   rstd_T        [T]     wide, from the forward pass
///   dresidual_TH  [T, H]  dtype of dy; added if present
///   out           where to write the result; may be dy, x or dresidual itself. A new tensor if absent.
///
/// Throws ShapeError like rms_norm.
at::Tensor rms_norm_backward_input(const at::Tensor& dy_TH, const at::Tensor& x_TH,
                                   const at::Tensor& weight_H, const at::Tensor& rstd_T,
                                   const std::optional<at::Tensor>& dresidual_TH = std::nullopt,
                                   const std::optional<at::Tensor>& out = std::nullopt);

/// main_grad (+)= sum over rows of dy * x * rstd, rows in ascending order for any number of threads.
///
///   main_grad_H  [H]  wide
///
/// Throws ShapeError like rms_norm.
void rms_norm_backward_weight(const at::Tensor& dy_TH, const at::Tensor& x_TH, const at::Tensor& rstd_T,
                              const at::Tensor& main_grad_H, Accumulate mode);

}  // namespace braid::kernels
