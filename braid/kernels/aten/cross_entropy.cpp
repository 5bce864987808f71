#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"

namespace braid::kernels::aten {

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

}  // namespace braid::kernels::aten
