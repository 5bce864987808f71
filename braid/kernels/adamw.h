// One step of AdamW on one tensor, in one pass over memory.
// Source: Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid::kernels {

struct AdamWStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;       // the number of this update, starting at 1
  double grad_scale = 1;  // the gradient is multiplied by this first: clipping, 1 / tokens, loss scale
};

/// Updates master, exp_avg and exp_avg_sq, and writes the new master to `value`. Decay is decoupled; bias
/// corrections are computed in float64.
///
///   master, exp_avg, exp_avg_sq, grad  same shape, float32 (or float64), contiguous; grad is only read
///   value                              same shape; master itself, or its copy in another dtype (bfloat16)
///
/// No temporary larger than 1 MiB on the CPU. Throws ShapeError if the tensors do not match, ConfigError if
/// step < 1.
void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step);

}  // namespace braid::kernels
