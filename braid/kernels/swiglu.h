// SwiGLU: silu(gate) * up, where gate and up are the left and right halves of one matrix.
//
// I = intermediate size. Source: Shazeer 2020, arXiv:2002.05202.
#pragma once

#include <ATen/core/Tensor.h>

namespace braid::kernels {

/// silu(gate) * up.
///
///   gate_up_TJ  [T, 2I]  float32, bfloat16 or float64, contiguous; columns [0, I) are the gate
///   returns     [T, I]   same dtype; computed wide (float32, or float64 for float64), rounded once
///
/// Throws ShapeError if gate_up is not such a matrix.
at::Tensor swiglu(const at::Tensor& gate_up_TJ);

struct SwigluGradient {
  at::Tensor d_gate_up_TJ;
  // Bit for bit the result of swiglu(gate_up); the down projection's weight gradient needs it.
  at::Tensor activation_TI;
};

/// Gradient of gate_up; also recomputes the activation.
///
///   dy_TI       [T, I]
///   gate_up_TJ  [T, 2I]  dtype of dy
///
/// Throws ShapeError if the shapes do not match.
SwigluGradient swiglu_backward(const at::Tensor& dy_TI, const at::Tensor& gate_up_TJ);

/// The same in place: gate_up becomes its own gradient. Returns the activation, [T, I].
at::Tensor swiglu_backward_(const at::Tensor& dy_TI, const at::Tensor& gate_up_TJ);

}  // namespace braid::kernels
