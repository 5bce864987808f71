// RMSNorm: each row is read twice from the cache, but only once from memory.
#include "braid/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "braid/kernels/cpu/norm_with_highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/cpu/parallel.h"
#include "braid/kernels/cpu/rows.h"
#include "braid/kernels/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

template <typename T>
void norm_rows_of(const NormRows& a, size_t begin, size_t end) {
  const auto* weight = static_cast<const T*>(a.weight);
  for (size_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    T* y = static_cast<T*>(a.y) + row * a.width;
    Vec squares[4] = {hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32)};
    if (a.branch != nullptr) {
      const T* branch = static_cast<const T*>(a.branch) + row * a.width;
      T* sum = static_cast<T*>(a.sum) + row * a.width;
      for_each_vector(a.width, [&](size_t i, auto slot, auto part) HWY_ATTR {
        const Vec v = rounded_to<T>(hn::Add(load(x + i, part), load(branch + i, part)));
        store_rounded(v, sum + i, part);
        squares[slot] = hn::MulAdd(v, v, squares[slot]);
      });
      x = sum;
    } else {
      for_each_vector(a.width, [&](size_t i, auto slot, auto part) HWY_ATTR {
        const Vec v = load(x + i, part);
        squares[slot] = hn::MulAdd(v, v, squares[slot]);
      });
    }
    const double mean = static_cast<double>(sum_of(squares)) / static_cast<double>(a.width);
    const auto rstd = static_cast<float>(1 / std::sqrt(mean + a.eps));
    a.rstd[row] = rstd;
    const Vec factor = hn::Set(kF32, rstd);
    for_each_vector(a.width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
      store(hn::Mul(hn::Mul(load(x + i, part), factor), load(weight + i, part)), y + i, part);
    });
  }
}

template <typename T>
void norm_gradient_rows_of(const NormGradientRows& a, size_t begin, size_t end) {
  const auto* weight = static_cast<const T*>(a.weight);
  for (size_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    const T* dy = static_cast<const T*>(a.dy) + row * a.width;
    T* dx = static_cast<T*>(a.dx) + row * a.width;
    Vec products[4] = {hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32)};
    for_each_vector(a.width, [&](size_t i, auto slot, auto part) HWY_ATTR {
      const Vec g = hn::Mul(load(dy + i, part), load(weight + i, part));
      products[slot] = hn::MulAdd(g, load(x + i, part), products[slot]);
    });
    // dx = rstd * g - x * rstd^3 * mean(g * x)
    const double rstd = a.rstd[row];
    const double mean = static_cast<double>(sum_of(products)) / static_cast<double>(a.width);
    const Vec gain = hn::Set(kF32, a.rstd[row]);
    const Vec pull = hn::Set(kF32, static_cast<float>(rstd * rstd * rstd * mean));
    const auto gradient = [&](size_t i, auto part) HWY_ATTR {
      const Vec g = hn::Mul(hn::Mul(load(dy + i, part), load(weight + i, part)), gain);
      return hn::NegMulAdd(load(x + i, part), pull, g);
    };
    if (a.dresidual != nullptr) {
      const T* dresidual = static_cast<const T*>(a.dresidual) + row * a.width;
      for_each_vector(a.width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
        store(hn::Add(gradient(i, part), load(dresidual + i, part)), dx + i, part);
      });
    } else {
      for_each_vector(a.width, [&](size_t i, auto /*slot*/, auto part)
                                   HWY_ATTR { store(gradient(i, part), dx + i, part); });
    }
  }
}

// Columns [begin, end) of the weight's gradient. Sums of a few rows stay in the first-level cache and are
// then added to the total: fewer roundings of large sums than adding every row to it.
template <typename T>
void norm_weight_columns_of(const NormGradientRows& a, size_t begin, size_t end) {
  constexpr size_t kRows = 32;
  constexpr size_t kColumns = 1024;
  HWY_ALIGN float partial[kColumns];
  for (size_t column = begin; column < end; column += kColumns) {
    const size_t width = HWY_MIN(kColumns, end - column);
    float* total = a.main_grad + column;
    if (a.overwrite) std::memset(total, 0, width * sizeof(float));
    for (size_t block = 0; block < a.rows; block += kRows) {
      std::memset(partial, 0, width * sizeof(float));
      for (size_t row = block; row < HWY_MIN(a.rows, block + kRows); ++row) {
        const T* x = static_cast<const T*>(a.x) + row * a.width + column;
        const T* dy = static_cast<const T*>(a.dy) + row * a.width + column;
        const Vec rstd = hn::Set(kF32, a.rstd[row]);
        for_each_vector(width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
          const Vec normed = hn::Mul(load(x + i, part), rstd);
          store(hn::MulAdd(load(dy + i, part), normed, load(partial + i)), partial + i);
        });
      }
      for_each_vector(width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
        store(hn::Add(load(total + i, part), load(partial + i)), total + i, part);
      });
    }
  }
}

void norm_rows(const NormRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    norm_rows_of<uint16_t>(a, begin, end);
  } else {
    norm_rows_of<float>(a, begin, end);
  }
}

void norm_gradient_rows(const NormGradientRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    norm_gradient_rows_of<uint16_t>(a, begin, end);
  } else {
    norm_gradient_rows_of<float>(a, begin, end);
  }
}

void norm_weight_columns(const NormGradientRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    norm_weight_columns_of<uint16_t>(a, begin, end);
  } else {
    norm_weight_columns_of<float>(a, begin, end);
  }
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(norm_rows);
HWY_EXPORT(norm_gradient_rows);
HWY_EXPORT(norm_weight_columns);

namespace {

void run_norm(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& y,
              const at::Tensor& rstd, const at::Tensor* branch, const at::Tensor* sum) {
  const NormRows rows = {.bf16 = x.scalar_type() == at::kBFloat16,
                         .width = static_cast<size_t>(x.size(1)),
                         .eps = eps,
                         .x = x.const_data_ptr(),
                         .branch = branch != nullptr ? branch->const_data_ptr() : nullptr,
                         .sum = sum != nullptr ? sum->mutable_data_ptr() : nullptr,
                         .weight = weight.const_data_ptr(),
                         .y = y.mutable_data_ptr(),
                         .rstd = rstd.mutable_data_ptr<float>()};
  for_row_ranges(x.size(0), x.size(1), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(norm_rows)(rows, begin, end);
  });
}

}  // namespace

void rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& y,
              const at::Tensor& rstd) {
  run_norm(x, weight, eps, y, rstd, nullptr, nullptr);
}

void add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, double eps,
                  const at::Tensor& sum, const at::Tensor& y, const at::Tensor& rstd) {
  run_norm(x, weight, eps, y, rstd, &branch, &sum);
}

void rms_norm_backward_input(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& rstd, const std::optional<at::Tensor>& dresidual,
                             const at::Tensor& dx) {
  const NormGradientRows rows = {.bf16 = x.scalar_type() == at::kBFloat16,
                                 .width = static_cast<size_t>(x.size(1)),
                                 .rows = static_cast<size_t>(x.size(0)),
                                 .dy = dy.const_data_ptr(),
                                 .x = x.const_data_ptr(),
                                 .weight = weight.const_data_ptr(),
                                 .rstd = rstd.const_data_ptr<float>(),
                                 .dresidual = dresidual ? dresidual->const_data_ptr() : nullptr,
                                 .dx = dx.mutable_data_ptr()};
  for_row_ranges(x.size(0), x.size(1), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(norm_gradient_rows)(rows, begin, end);
  });
}

void rms_norm_backward_weight(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                              const at::Tensor& main_grad, Accumulate mode) {
  const NormGradientRows rows = {.bf16 = x.scalar_type() == at::kBFloat16,
                                 .width = static_cast<size_t>(x.size(1)),
                                 .rows = static_cast<size_t>(x.size(0)),
                                 .dy = dy.const_data_ptr(),
                                 .x = x.const_data_ptr(),
                                 .rstd = rstd.const_data_ptr<float>(),
                                 .main_grad = main_grad.mutable_data_ptr<float>(),
                                 .overwrite = mode == Accumulate::kOverwrite};
  for_row_ranges(x.size(1), x.size(0), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(norm_weight_columns)(rows, begin, end);
  });
}

}  // namespace braid::kernels::cpu
#endif
