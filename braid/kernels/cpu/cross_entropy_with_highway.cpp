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

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(cross_entropy_rows);

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

}  // namespace braid::kernels::cpu
#endif
