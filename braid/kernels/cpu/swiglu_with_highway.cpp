// SwiGLU forward and backward, element by element.
#include "braid/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "braid/kernels/cpu/swiglu_with_highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <ATen/ATen.h>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/cpu/parallel.h"
#include "braid/kernels/cpu/rows.h"
#include "braid/kernels/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

// 1 / (1 + e^-x). For x <= -100, e^-x is infinite in float32 and the result 0; Exp is not defined much
// further.
HWY_INLINE Vec sigmoid(Vec x) {
  const Vec one = hn::Set(kF32, 1.0F);
  return hn::Div(one, hn::Add(one, hn::Exp(kF32, hn::Min(hn::Neg(x), hn::Set(kF32, 100.0F)))));
}

template <typename T>
void swiglu_rows_of(const SwigluRows& a, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.gate_up) + row * 2 * a.half;
    const T* up = gate + a.half;
    T* activation = static_cast<T*>(a.activation) + row * a.half;
    for_each_vector(a.half, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
      const Vec g = load(gate + i, part);
      store(hn::Mul(hn::Mul(g, sigmoid(g)), load(up + i, part)), activation + i, part);
    });
  }
}

template <typename T>
void swiglu_gradient_rows_of(const SwigluRows& a, size_t begin, size_t end) {
  const Vec one = hn::Set(kF32, 1.0F);
  for (size_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.gate_up) + row * 2 * a.half;
    const T* up = gate + a.half;
    const T* dy = static_cast<const T*>(a.dy) + row * a.half;
    T* d_gate = static_cast<T*>(a.d_gate_up) + row * 2 * a.half;
    T* d_up = d_gate + a.half;
    T* activation = static_cast<T*>(a.activation) + row * a.half;
    for_each_vector(a.half, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
      const Vec g = load(gate + i, part);
      const Vec u = load(up + i, part);
      const Vec d = load(dy + i, part);
      const Vec s = sigmoid(g);
      const Vec silu = hn::Mul(g, s);
      store(hn::Mul(silu, u), activation + i, part);
      store(hn::Mul(d, silu), d_up + i, part);
      store(hn::Mul(hn::Mul(d, u), hn::MulAdd(silu, hn::Sub(one, s), s)), d_gate + i, part);
    });
  }
}

void swiglu_rows(const SwigluRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    swiglu_rows_of<uint16_t>(a, begin, end);
  } else {
    swiglu_rows_of<float>(a, begin, end);
  }
}

void swiglu_gradient_rows(const SwigluRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    swiglu_gradient_rows_of<uint16_t>(a, begin, end);
  } else {
    swiglu_gradient_rows_of<float>(a, begin, end);
  }
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(swiglu_rows);
HWY_EXPORT(swiglu_gradient_rows);

void swiglu(const at::Tensor& gate_up, const at::Tensor& y) {
  const SwigluRows rows = {.bf16 = y.scalar_type() == at::kBFloat16,
                           .half = static_cast<size_t>(y.size(1)),
                           .gate_up = gate_up.const_data_ptr(),
                           .activation = y.mutable_data_ptr()};
  for_row_ranges(y.size(0), gate_up.size(1), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(swiglu_rows)(rows, begin, end);
  });
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up, const at::Tensor& d_gate_up,
                     const at::Tensor& activation) {
  const SwigluRows rows = {.bf16 = dy.scalar_type() == at::kBFloat16,
                           .half = static_cast<size_t>(dy.size(1)),
                           .gate_up = gate_up.const_data_ptr(),
                           .dy = dy.const_data_ptr(),
                           .d_gate_up = d_gate_up.mutable_data_ptr(),
                           .activation = activation.mutable_data_ptr()};
  for_row_ranges(dy.size(0), gate_up.size(1), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(swiglu_gradient_rows)(rows, begin, end);
  });
}

}  // namespace braid::kernels::cpu
#endif
