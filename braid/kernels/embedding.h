// Rows of an embedding table by token id, and the gradient of the table.
#pragma once

#include <ATen/core/Tensor.h>

#include "braid/kernels/accumulate.h"

namespace braid::kernels {

/// Row tokens[t] of the table for every t.
///
///   tokens_T   [T]     int64, in [0, V)
///   weight_VH  [V, H]  float32, bfloat16 or float64
///   returns    [T, H]  dtype of weight
///
/// Throws ShapeError if the shapes do not match, DataError for a token out of range (on the CPU; a GPU's own
/// check ends the kernel).
at::Tensor embedding(const at::Tensor& tokens_T, const at::Tensor& weight_VH);

/// main_grad[tokens[t]] += dy[t], for ascending t; kOverwrite sets main_grad to zero first. No temporary of
/// the table's size.
///
///   dy_TH         [T, H]  float32, bfloat16 or float64
///   main_grad_VH  [V, H]  float32, or float64 for float64
///
/// Throws like embedding.
void embedding_backward(const at::Tensor& tokens_T, const at::Tensor& dy_TH, const at::Tensor& main_grad_VH,
                        Accumulate mode);

}  // namespace braid::kernels
