// Softmax cross-entropy over rows of logits; the gradient overwrites the logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid::kernels {

/// A row with this target contributes no loss and no gradient.
inline constexpr int64_t kIgnoredTarget = -100;

struct LossSum {
  double sum = 0;     // of the counted rows' losses, in nats, added in row order in float64
  int64_t count = 0;  // rows whose target is not kIgnoredTarget
};

/// Loss of the rows; the logits are overwritten with (softmax - one-hot of the target) * grad_scale.
///
///   logits_CV   [C, V]  float32, bfloat16 or float64, contiguous
///   targets_C   [C]     int64, in [0, V) or kIgnoredTarget
///
/// Exponentials are computed in float32 (float64 for float64 logits).
/// A NaN or +infinite logit gives a NaN loss. On a GPU this waits for the device.
/// Throws ShapeError if the shapes do not match, DataError naming a target that is out of range (the logits
/// are then unchanged).
LossSum softmax_cross_entropy_(const at::Tensor& logits_CV, const at::Tensor& targets_C, double grad_scale);

/// The loss alone; the logits are unchanged.
LossSum softmax_cross_entropy_loss(const at::Tensor& logits_CV, const at::Tensor& targets_C);

}  // namespace braid::kernels
