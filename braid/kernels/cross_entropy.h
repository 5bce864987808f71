// Softmax cross-entropy over rows of logits; the gradient overwrites the logits.
//
// Where the vocabulary is cut across ranks, no rank has a whole row: each computes the statistics of its
// part, all exchange them, and each then knows the loss and the gradient of its part. Source: Shoeybi et al.
// 2019, arXiv:1909.08053, section 3 (output layer).
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

/// The columns of logits [C, V] that are a part of whole rows: ids [begin, begin + V) of `vocabulary`.
struct VocabularyPart {
  int64_t begin = 0;
  int64_t vocabulary = 0;
};

/// Three numbers of each row of a part, which together with the other parts' determine the softmax.
///
///   logits_CV  [C, V]     float32, bfloat16 or float64, contiguous; only read
///   targets_C  [C]        int64, in [0, part.vocabulary) or kIgnoredTarget
///   returns    [3, C]     float32, or float64 for float64: the maximum m, the sum of exp(x - m), and the
///                         target's logit, or 0 if the target is not in this part
///
/// A NaN or +infinite logit gives a NaN sum. Throws like softmax_cross_entropy_.
at::Tensor softmax_part_statistics(const at::Tensor& logits_CV, const at::Tensor& targets_C,
                                   const VocabularyPart& part);

/// The softmax of whole rows.
struct WholeSoftmax {
  LossSum loss;
  at::Tensor max_sum_2C;  // [2, C] dtype of the statistics: the maximum m and the sum of exp(x - m)
};

/// The softmax of rows whose n parts have these statistics, combined in the order of the parts in float64:
/// whoever passes the same numbers gets the same bits. On a GPU this waits for the device.
///
///   statistics_n3C  [n, 3, C]  float32 or float64, contiguous
///   targets_C       [C]        int64, as given to softmax_part_statistics
///
/// Throws ShapeError if the shapes do not match.
WholeSoftmax join_softmax_parts(const at::Tensor& statistics_n3C, const at::Tensor& targets_C);

/// The logits of a part are overwritten with (softmax of the whole row - one-hot of the target) * grad_scale.
/// `max_sum_2C` as from join_softmax_parts. Throws like softmax_part_statistics.
void softmax_part_gradient_(const at::Tensor& logits_CV, const at::Tensor& targets_C,
                            const VocabularyPart& part, const at::Tensor& max_sum_2C, double grad_scale);

}  // namespace braid::kernels
