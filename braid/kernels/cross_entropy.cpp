#include "braid/kernels/cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {
namespace {

void check_targets(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary) {
  require_matrix(logits, "logits");
  require_tensor(targets, "targets", {logits.size(0)}, at::kLong, logits);
  const at::Tensor on_cpu = targets.cpu();
  const int64_t* target = on_cpu.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < targets.numel(); ++row) {
    require<DataError>((0 <= target[row] && target[row] < vocabulary) || target[row] == kIgnoredTarget,
                       "target ", target[row], " at row ", row, " is not a token id: ids are 0 to ",
                       vocabulary - 1, ", and ", kIgnoredTarget, " for a row without loss");
  }
}

LossSum checked_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              std::optional<double> grad_scale) {
  check_targets(logits, targets, logits.size(1));
  return cpu::handles(logits) ? cpu::softmax_cross_entropy(logits, targets, grad_scale)
                              : aten::softmax_cross_entropy(logits, targets, grad_scale);
}

void check_part(const at::Tensor& logits, const at::Tensor& targets, const VocabularyPart& part) {
  check_targets(logits, targets, part.vocabulary);
  require<ShapeError>(part.begin >= 0 && part.begin + logits.size(1) <= part.vocabulary, "logits of ids ",
                      part.begin, " to ", part.begin + logits.size(1) - 1,
                      " are not part of a vocabulary of ", part.vocabulary);
}

/// Row by row in float64; each sum in the order of the parts.
template <typename T>
LossSum join_rows(const at::Tensor& statistics, const at::Tensor& targets, const at::Tensor& max_sum) {
  const int64_t parts = statistics.size(0), rows = statistics.size(2);
  const T* from = statistics.const_data_ptr<T>();
  const int64_t* target = targets.const_data_ptr<int64_t>();
  T* max_of = max_sum.mutable_data_ptr<T>();
  T* sum_of = max_of + rows;
  LossSum loss;
  for (int64_t row = 0; row < rows; ++row) {
    max_of[row] = 0;
    sum_of[row] = 1;
    if (target[row] == kIgnoredTarget) continue;
    const auto statistic = [&](int64_t part, int64_t i) {
      return static_cast<double>(from[(part * 3 + i) * rows + row]);
    };
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t part = 0; part < parts; ++part) max = std::max(max, statistic(part, 0));
    double sum = 0, own = 0;
    for (int64_t part = 0; part < parts; ++part) {
      sum += statistic(part, 1) * std::exp(statistic(part, 0) - max);
      own += statistic(part, 2);
    }
    loss.sum += std::log(sum) - (own - max);
    ++loss.count;
    max_of[row] = static_cast<T>(max);
    sum_of[row] = static_cast<T>(sum);
  }
  return loss;
}

}  // namespace

LossSum softmax_cross_entropy_(const at::Tensor& logits_CV, const at::Tensor& targets_C, double grad_scale) {
  return checked_cross_entropy(logits_CV, targets_C, grad_scale);
}

LossSum softmax_cross_entropy_loss(const at::Tensor& logits_CV, const at::Tensor& targets_C) {
  return checked_cross_entropy(logits_CV, targets_C, std::nullopt);
}

at::Tensor softmax_part_statistics(const at::Tensor& logits_CV, const at::Tensor& targets_C,
                                   const VocabularyPart& part) {
  check_part(logits_CV, targets_C, part);
  at::Tensor statistics = at::empty({3, logits_CV.size(0)}, logits_CV.options().dtype(wide_dtype(logits_CV)));
  if (cpu::handles(logits_CV)) {
    cpu::softmax_part_statistics(logits_CV, targets_C, part.begin, statistics);
  } else {
    aten::softmax_part_statistics(logits_CV, targets_C, part.begin, statistics);
  }
  return statistics;
}

WholeSoftmax join_softmax_parts(const at::Tensor& statistics_n3C, const at::Tensor& targets_C) {
  require_floating(statistics_n3C, "statistics");
  require<ShapeError>(statistics_n3C.dim() == 3 && statistics_n3C.size(1) == 3 &&
                          statistics_n3C.scalar_type() == wide_dtype(statistics_n3C),
                      "statistics must be [parts, 3, rows] Float or Double, got ", describe(statistics_n3C));
  require_tensor(targets_C, "targets", {statistics_n3C.size(2)}, at::kLong, statistics_n3C);
  WholeSoftmax whole = {.loss = {},
                        .max_sum_2C = at::empty({2, statistics_n3C.size(2)}, statistics_n3C.options())};
  if (!statistics_n3C.is_cpu()) {
    whole.loss = aten::join_softmax_parts(statistics_n3C, targets_C, whole.max_sum_2C);
  } else if (statistics_n3C.scalar_type() == at::kDouble) {
    whole.loss = join_rows<double>(statistics_n3C, targets_C, whole.max_sum_2C);
  } else {
    whole.loss = join_rows<float>(statistics_n3C, targets_C, whole.max_sum_2C);
  }
  return whole;
}

void softmax_part_gradient_(const at::Tensor& logits_CV, const at::Tensor& targets_C,
                            const VocabularyPart& part, const at::Tensor& max_sum_2C, double grad_scale) {
  check_part(logits_CV, targets_C, part);
  require_tensor(max_sum_2C, "max_sum", {2, logits_CV.size(0)}, wide_dtype(logits_CV), logits_CV);
  if (cpu::handles(logits_CV)) {
    cpu::softmax_part_gradient_(logits_CV, targets_C, part.begin, max_sum_2C, grad_scale);
  } else {
    aten::softmax_part_gradient_(logits_CV, targets_C, part.begin, max_sum_2C, grad_scale);
  }
}

}  // namespace braid::kernels
