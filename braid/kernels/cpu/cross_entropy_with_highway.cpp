// Cross-entropy row by row: maximum and sum of exponentials together, then the gradient in place.
#include "braid/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "braid/kernels/cpu/cross_entropy_with_highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/cpu/parallel.h"
#include "braid/kernels/cpu/rows.h"
#include "braid/kernels/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

constexpr size_t kBlock = kCrossEntropyBlock;

struct Softmax {
  float max;
  double sum;  // of exp(x - max)
};

// Block by block, so that a row of any length is read from memory once: the sum is scaled when a later block
// has a larger maximum. If `powers` is given, it receives exp(x - m), where m is the maximum up to the end of
// the block and is stored in `block_maxima`; it may be x itself.
template <typename T>
Softmax softmax_of(const T* x, size_t width, float* powers, float* block_maxima) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const Tail padding = {0, lowest};
  Softmax result = {lowest, 0};
  for (size_t begin = 0; begin < width; begin += kBlock) {
    const size_t size = HWY_MIN(kBlock, width - begin);
    const T* block = x + begin;
    const Vec low = hn::Set(kF32, lowest);
    Vec maxima[4] = {low, low, low, low};
    for_each_vector(size, padding, [&](size_t i, auto slot, auto part) HWY_ATTR {
      maxima[slot] = hn::Max(load(block + i, part), maxima[slot]);
    });
    const Vec top = hn::Max(hn::Max(maxima[0], maxima[1]), hn::Max(maxima[2], maxima[3]));
    const float max = HWY_MAX(result.max, hn::GetLane(hn::MaxOfLanes(kF32, top)));
    if (result.sum != 0) result.sum *= std::exp(static_cast<double>(result.max) - max);
    result.max = max;
    const Vec shift = hn::Set(kF32, max);
    Vec sums[4] = {hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32)};
    const auto power = [&](size_t i, auto part) HWY_ATTR {
      const Vec x_minus_max = hn::Sub(load(block + i, part), shift);
      // Exp turns a NaN into 0, which would hide a diverged training run.
      return hn::IfThenElse(hn::IsNaN(x_minus_max), x_minus_max, hn::Exp(kF32, x_minus_max));
    };
    if (powers != nullptr) {
      block_maxima[begin / kBlock] = max;
      for_each_vector(size, padding, [&](size_t i, auto slot, auto part) HWY_ATTR {
        const Vec e = power(i, part);
        store(e, powers + begin + i, part);
        sums[slot] = hn::Add(sums[slot], e);
      });
    } else {
      for_each_vector(size, padding, [&](size_t i, auto slot, auto part) HWY_ATTR {
        sums[slot] = hn::Add(sums[slot], power(i, part));
      });
    }
    result.sum += static_cast<double>(sum_of(sums));
  }
  return result;
}

template <typename T>
HWY_INLINE float scalar(const T* p) {
  return hn::GetLane(load(p, Tail{1}));
}

// `scratch` holds the blocks' maxima, followed by the row's powers if they do not fit into the row itself.
template <typename T>
void cross_entropy_rows_of(const CrossEntropyRows& a, float* scratch, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    T* x = static_cast<T*>(a.logits) + row * a.width;
    a.losses[row] = 0;
    if (a.targets[row] == kIgnoredTarget) {
      if (a.with_gradient) std::memset(static_cast<void*>(x), 0, a.width * sizeof(T));
      continue;
    }
    float* block_maxima = scratch;
    float* powers = scratch + hwy::DivCeil(a.width, kBlock);
    if constexpr (std::is_same_v<T, float>) powers = x;
    T* own = x + a.targets[row];
    const float own_logit = scalar(own);
    const Softmax softmax = softmax_of(x, a.width, a.with_gradient ? powers : nullptr, block_maxima);
    const double own_minus_max = static_cast<double>(own_logit) - softmax.max;
    a.losses[row] = std::log(softmax.sum) - own_minus_max;
    if (!a.with_gradient) continue;
    for (size_t block = 0; block < a.width; block += kBlock) {
      const double rescale = std::exp(static_cast<double>(block_maxima[block / kBlock]) - softmax.max);
      const Vec factor = hn::Set(kF32, static_cast<float>(rescale * a.grad_scale / softmax.sum));
      for_each_vector(HWY_MIN(kBlock, a.width - block), [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
        store(hn::Mul(load(powers + block + i, part), factor), x + block + i, part);
      });
    }
    const double own_gradient = (std::exp(own_minus_max) / softmax.sum - 1) * a.grad_scale;
    store(hn::Set(kF32, static_cast<float>(own_gradient)), own, Tail{1});
  }
}

void cross_entropy_rows(const CrossEntropyRows& a, float* scratch, size_t begin, size_t end) {
  if (a.bf16) {
    cross_entropy_rows_of<uint16_t>(a, scratch, begin, end);
  } else {
    cross_entropy_rows_of<float>(a, scratch, begin, end);
  }
}

/// The target's logit in row `row`, or null if it is not in this part.
template <typename T>
T* own_in_part(const SoftmaxPartRows& a, size_t row) {
  const int64_t column = a.targets[row] - a.begin;
  if (column < 0 || column >= static_cast<int64_t>(a.width)) return nullptr;
  return static_cast<T*>(a.logits) + row * a.width + static_cast<size_t>(column);
}

template <typename T>
void softmax_part_statistics_of(const SoftmaxPartRows& a, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    a.max[row] = a.sum[row] = a.own_logit[row] = 0;
    if (a.targets[row] == kIgnoredTarget) continue;
    const T* own = own_in_part<T>(a, row);
    if (own != nullptr) a.own_logit[row] = scalar(own);
    const T* x = static_cast<const T*>(a.logits) + row * a.width;
    const Softmax softmax = softmax_of(x, a.width, nullptr, nullptr);
    a.max[row] = softmax.max;
    a.sum[row] = static_cast<float>(softmax.sum);
  }
}

void softmax_part_statistics(const SoftmaxPartRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    softmax_part_statistics_of<uint16_t>(a, begin, end);
  } else {
    softmax_part_statistics_of<float>(a, begin, end);
  }
}

template <typename T>
void softmax_part_gradient_of(const SoftmaxPartRows& a, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    T* x = static_cast<T*>(a.logits) + row * a.width;
    if (a.targets[row] == kIgnoredTarget) {
      std::memset(static_cast<void*>(x), 0, a.width * sizeof(T));
      continue;
    }
    T* own = own_in_part<T>(a, row);
    const double own_minus_max = own == nullptr ? 0 : static_cast<double>(scalar(own)) - a.max[row];
    const Vec shift = hn::Set(kF32, a.max[row]);
    const Vec factor = hn::Set(kF32, static_cast<float>(a.grad_scale / a.sum[row]));
    for_each_vector(a.width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
      const Vec x_minus_max = hn::Sub(load(x + i, part), shift);
      const Vec power = hn::IfThenElse(hn::IsNaN(x_minus_max), x_minus_max, hn::Exp(kF32, x_minus_max));
      store(hn::Mul(power, factor), x + i, part);
    });
    if (own == nullptr) continue;
    const double own_gradient = (std::exp(own_minus_max) / a.sum[row] - 1) * a.grad_scale;
    store(hn::Set(kF32, static_cast<float>(own_gradient)), own, Tail{1});
  }
}

void softmax_part_gradient(const SoftmaxPartRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    softmax_part_gradient_of<uint16_t>(a, begin, end);
  } else {
    softmax_part_gradient_of<float>(a, begin, end);
  }
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(softmax_part_statistics);
HWY_EXPORT(softmax_part_gradient);

LossSum softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              std::optional<double> grad_scale) {
  std::vector<double> losses(static_cast<size_t>(logits.size(0)));
  // Without a gradient the logits are only read.
  const CrossEntropyRows rows = {.bf16 = logits.scalar_type() == at::kBFloat16,
                                 .width = static_cast<size_t>(logits.size(1)),
                                 .logits = logits.data_ptr(),
                                 .targets = targets.const_data_ptr<int64_t>(),
                                 .losses = losses.data(),
                                 .with_gradient = grad_scale.has_value(),
                                 .grad_scale = grad_scale.value_or(0)};
  for_row_ranges(logits.size(0), logits.size(1), [&](size_t begin, size_t end) {
    const size_t blocks = hwy::DivCeil(rows.width, kCrossEntropyBlock);
    std::vector<float> scratch(blocks + (rows.bf16 ? rows.width : 0));
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(rows, scratch.data(), begin, end);
  });
  LossSum result;
  for (size_t row = 0; row < losses.size(); ++row) {
    result.sum += losses[row];
    if (rows.targets[row] != kIgnoredTarget) ++result.count;
  }
  return result;
}

void softmax_part_statistics(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                             const at::Tensor& statistics) {
  const int64_t rows = logits.size(0);
  auto* numbers = statistics.mutable_data_ptr<float>();
  const SoftmaxPartRows part = {.bf16 = logits.scalar_type() == at::kBFloat16,
                                .width = static_cast<size_t>(logits.size(1)),
                                .begin = begin,
                                .logits = logits.data_ptr(),  // only read
                                .targets = targets.const_data_ptr<int64_t>(),
                                .max = numbers,
                                .sum = numbers + rows,
                                .own_logit = numbers + 2 * rows};
  for_row_ranges(rows, logits.size(1), [&](size_t first, size_t last) {
    HWY_DYNAMIC_DISPATCH(softmax_part_statistics)(part, first, last);
  });
}

void softmax_part_gradient_(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                            const at::Tensor& max_sum, double grad_scale) {
  const int64_t rows = logits.size(0);
  auto* numbers = max_sum.data_ptr<float>();  // only read
  const SoftmaxPartRows part = {.bf16 = logits.scalar_type() == at::kBFloat16,
                                .width = static_cast<size_t>(logits.size(1)),
                                .begin = begin,
                                .logits = logits.mutable_data_ptr(),
                                .targets = targets.const_data_ptr<int64_t>(),
                                .max = numbers,
                                .sum = numbers + rows,
                                .grad_scale = grad_scale};
  for_row_ranges(rows, logits.size(1), [&](size_t first, size_t last) {
    HWY_DYNAMIC_DISPATCH(softmax_part_gradient)(part, first, last);
  });
}

}  // namespace braid::kernels::cpu
#endif
