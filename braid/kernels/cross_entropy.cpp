#include "braid/kernels/cross_entropy.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {
namespace {

void check_targets(const at::Tensor& logits, const at::Tensor& targets) {
  require_matrix(logits, "logits");
  require_tensor(targets, "targets", {logits.size(0)}, at::kLong, logits);
  const at::Tensor on_cpu = targets.cpu();
  const int64_t* target = on_cpu.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < targets.numel(); ++row) {
    require<DataError>((0 <= target[row] && target[row] < logits.size(1)) || target[row] == kIgnoredTarget,
                       "target ", target[row], " at row ", row, " is not a token id: ids are 0 to ",
                       logits.size(1) - 1, ", and ", kIgnoredTarget, " for a row without loss");
  }
}

LossSum checked_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              std::optional<double> grad_scale) {
  check_targets(logits, targets);
  return cpu::handles(logits) ? cpu::softmax_cross_entropy(logits, targets, grad_scale)
                              : aten::softmax_cross_entropy(logits, targets, grad_scale);
}

}  // namespace

LossSum softmax_cross_entropy_(const at::Tensor& logits_CV, const at::Tensor& targets_C, double grad_scale) {
  return checked_cross_entropy(logits_CV, targets_C, grad_scale);
}

LossSum softmax_cross_entropy_loss(const at::Tensor& logits_CV, const at::Tensor& targets_C) {
  return checked_cross_entropy(logits_CV, targets_C, std::nullopt);
}

}  // namespace braid::kernels
