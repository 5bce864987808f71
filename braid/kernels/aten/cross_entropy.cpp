#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"

namespace braid::kernels::aten {
namespace {

/// The targets as columns of a part of `width` ids from `begin`: 0 where a target is not in it.
struct Columns {
  at::Tensor inside;  // [C] bool
  at::Tensor column;  // [C, 1]
};

Columns columns_of(const at::Tensor& targets, int64_t begin, int64_t width) {
  const at::Tensor column = targets - begin;
  const at::Tensor inside = column.ge(0).logical_and_(column.lt(width));
  return {inside, at::where(inside, column, at::zeros_like(column)).unsqueeze(1)};
}

}  // namespace

LossSum softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              std::optional<double> grad_scale) {
  if (logits.size(0) == 0) return {};
  const at::Tensor counted = targets.ne(kIgnoredTarget);
  const at::Tensor column = targets.clamp_min(0).unsqueeze(1);
  const at::Tensor log_p = at::log_softmax(logits, 1, wide_dtype(logits));
  const at::Tensor losses = -log_p.gather(1, column).squeeze(1).to(at::kDouble);
  // Waits for the device only once: both numbers are copied together.
  const at::Tensor sums =
      at::stack({at::where(counted, losses, at::zeros_like(losses)).sum(), counted.sum().to(at::kDouble)})
          .cpu();
  const double* numbers = sums.const_data_ptr<double>();
  const LossSum result = {.sum = numbers[0], .count = static_cast<int64_t>(numbers[1])};
  if (!grad_scale) return result;
  at::Tensor gradient = log_p.exp_();
  gradient.scatter_add_(1, column, at::full({1, 1}, -1.0, gradient.options()).expand_as(column));
  gradient.mul_(*grad_scale);
  logits.copy_(gradient.masked_fill_(counted.logical_not().unsqueeze(1), 0.0));
  return result;
}

void softmax_part_statistics(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                             const at::Tensor& statistics) {
  if (logits.size(0) == 0) return;
  const at::Tensor x = logits.to(statistics.scalar_type());
  const at::Tensor max = x.amax(1);
  const Columns own = columns_of(targets, begin, logits.size(1));
  const at::Tensor own_logit = x.gather(1, own.column).squeeze(1);
  statistics[0].copy_(max);
  statistics[1].copy_((x - max.unsqueeze(1)).exp_().sum(1));
  statistics[2].copy_(at::where(own.inside, own_logit, at::zeros_like(own_logit)));
}

LossSum join_softmax_parts(const at::Tensor& statistics, const at::Tensor& targets,
                           const at::Tensor& max_sum) {
  if (targets.numel() == 0) return {};
  const at::Tensor wide = statistics.to(at::kDouble);
  const at::Tensor max = wide.select(1, 0).amax(0);
  at::Tensor sum = at::zeros_like(max), own = at::zeros_like(max);
  for (int64_t part = 0; part < wide.size(0); ++part) {
    sum.add_(wide[part][1] * (wide[part][0] - max).exp_());
    own.add_(wide[part][2]);
  }
  const at::Tensor counted = targets.ne(kIgnoredTarget);
  max_sum[0].copy_(at::where(counted, max, at::zeros_like(max)));
  max_sum[1].copy_(at::where(counted, sum, at::ones_like(sum)));
  const at::Tensor losses = sum.log() - (own - max);
  // Waits for the device only once: both numbers are copied together.
  const at::Tensor sums =
      at::stack({at::where(counted, losses, at::zeros_like(losses)).sum(), counted.sum().to(at::kDouble)})
          .cpu();
  const double* numbers = sums.const_data_ptr<double>();
  return {.sum = numbers[0], .count = static_cast<int64_t>(numbers[1])};
}

void softmax_part_gradient_(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                            const at::Tensor& max_sum, double grad_scale) {
  if (logits.size(0) == 0) return;
  at::Tensor gradient = (logits.to(max_sum.scalar_type()) - max_sum[0].unsqueeze(1)).exp_();
  gradient.div_(max_sum[1].unsqueeze(1));
  const Columns own = columns_of(targets, begin, logits.size(1));
  gradient.scatter_add_(1, own.column, own.inside.unsqueeze(1).to(gradient.scalar_type()).neg_());
  gradient.mul_(grad_scale);
  logits.copy_(gradient.masked_fill_(targets.eq(kIgnoredTarget).unsqueeze(1), 0.0));
}

}  // namespace braid::kernels::aten
