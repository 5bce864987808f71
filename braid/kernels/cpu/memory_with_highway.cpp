// Kernels that are little more than memory traffic: sum of squares, rows added to rows, change of dtype.
#include "braid/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "braid/kernels/cpu/memory_with_highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/cpu/parallel.h"
#include "braid/kernels/cpu/rows.h"
#include "braid/kernels/cpu/vec-inl.h"
#include "braid/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using HalfF32 = hn::Rebind<float, F64>;

HWY_INLINE hn::Vec<F64> load_wide(const float* p) { return hn::PromoteTo(F64(), hn::LoadU(HalfF32(), p)); }

HWY_INLINE hn::Vec<F64> load_wide(const uint16_t* p) {
  const hn::RebindToUnsigned<HalfF32> u32;
  const auto bits = hn::PromoteTo(u32, hn::LoadU(hn::Rebind<uint16_t, F64>(), p));
  return hn::PromoteTo(F64(), hn::BitCast(HalfF32(), hn::ShiftLeft<16>(bits)));
}

template <typename T>
double squares_of(const T* x, size_t n) {
  constexpr size_t kStep = hn::MaxLanes(F64());
  const F64 f64;
  const auto zero = hn::Zero(f64);
  hn::Vec<F64> sums[4] = {zero, zero, zero, zero};
  size_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    for (size_t slot = 0; slot < 4; ++slot) {
      const auto v = load_wide(x + i + slot * kStep);
      sums[slot] = hn::MulAdd(v, v, sums[slot]);
    }
  }
  for (; i < n; i += kStep) {
    T buffer[kStep] = {};
    std::memcpy(buffer, x + i, HWY_MIN(kStep, n - i) * sizeof(T));
    const auto v = load_wide(buffer);
    sums[0] = hn::MulAdd(v, v, sums[0]);
  }
  const auto sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  return hn::GetLane(hn::SumOfLanes(f64, sum));
}

double squares(bool bf16, const void* x, size_t offset, size_t n) {
  return bf16 ? squares_of(static_cast<const uint16_t*>(x) + offset, n)
              : squares_of(static_cast<const float*>(x) + offset, n);
}

template <typename T>
void add_row_of(const T* from, float* to, size_t n) {
  for_each_vector(n, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
    store(hn::Add(load(to + i, part), load(from + i, part)), to + i, part);
  });
}

void add_row(bool bf16, const void* from, size_t offset, float* to, size_t n) {
  if (bf16) {
    add_row_of(static_cast<const uint16_t*>(from) + offset, to, n);
  } else {
    add_row_of(static_cast<const float*>(from) + offset, to, n);
  }
}

template <typename From, typename To>
void convert_rows_of(const ConvertRows& a, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const From* from = static_cast<const From*>(a.from) + row * a.from_stride;
    To* to = static_cast<To*>(a.to) + row * a.to_stride;
    for_each_vector(a.width, [&](size_t i, auto /*slot*/, auto part)
                                 HWY_ATTR { store(load(from + i, part), to + i, part); });
  }
}

void convert_rows(const ConvertRows& a, size_t begin, size_t end) {
  if (a.to_bf16) {
    convert_rows_of<float, uint16_t>(a, begin, end);
  } else {
    convert_rows_of<uint16_t, float>(a, begin, end);
  }
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(squares);
HWY_EXPORT(add_row);
HWY_EXPORT(convert_rows);

bool handles(const at::Tensor& t) {
  return t.is_cpu() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16);
}

std::vector<double> block_squares(const at::Tensor& t) {
  constexpr auto kBlock = static_cast<size_t>(kSquaresBlock);
  const bool bf16 = t.scalar_type() == at::kBFloat16;
  const void* data = t.const_data_ptr();
  std::vector<double> sums(static_cast<size_t>(t.numel()) / kBlock);
  for_row_ranges(std::ssize(sums), kBlock, [&](size_t begin, size_t end) {
    for (size_t block = begin; block < end; ++block) {
      sums[block] = HWY_DYNAMIC_DISPATCH(squares)(bf16, data, block * kBlock, kBlock);
    }
  });
  return sums;
}

void embedding_backward(const at::Tensor& tokens, const at::Tensor& dy, const at::Tensor& main_grad,
                        Accumulate mode) {
  if (mode == Accumulate::kOverwrite) main_grad.zero_();
  const int64_t* token = tokens.const_data_ptr<int64_t>();
  const auto count = static_cast<size_t>(tokens.numel());
  const auto width = static_cast<size_t>(dy.size(1));
  const bool bf16 = dy.scalar_type() == at::kBFloat16;
  const void* from = dy.const_data_ptr();
  float* table = main_grad.mutable_data_ptr<float>();
  // A thread owns a range of the table's rows, so every row's sum is taken in token order.
  for_row_ranges(main_grad.size(0), main_grad.size(1), [&](size_t begin, size_t end) {
    const auto add = HWY_DYNAMIC_DISPATCH(add_row);
    for (size_t i = 0; i < count; ++i) {
      const auto row = static_cast<size_t>(token[i]);
      if (begin <= row && row < end) add(bf16, from, i * width, table + row * width, width);
    }
  });
}

void convert(const at::Tensor& from, const at::Tensor& to) {
  const ConvertRows rows = {.to_bf16 = to.scalar_type() == at::kBFloat16,
                            .width = static_cast<size_t>(from.size(1)),
                            .from = from.const_data_ptr(),
                            .from_stride = static_cast<size_t>(from.stride(0)),
                            .to = to.mutable_data_ptr(),
                            .to_stride = static_cast<size_t>(to.stride(0))};
  for_row_ranges(from.size(0), from.size(1), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(convert_rows)(rows, begin, end);
  });
}

}  // namespace braid::kernels::cpu
#endif
