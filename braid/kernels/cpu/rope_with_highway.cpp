// Rotary embedding of packed rows in place, and back out of the attention's gradients.
#include "braid/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "braid/kernels/cpu/rope_with_highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <ATen/ATen.h>

#include <vector>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/cpu/parallel.h"
#include "braid/kernels/cpu/rows.h"
#include "braid/kernels/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

// One head of `2 * half` features from `from` to `to` (which may be the same). `turn` is +1 forward and -1
// backward.
template <typename From, typename T>
HWY_INLINE void turn_head(const From* from, T* to, size_t half, const float* cos, const float* sin,
                          float turn) {
  const Vec sign = hn::Set(kF32, turn);
  for_each_vector(half, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
    const Vec a = load(from + i, part);
    const Vec b = load(from + half + i, part);
    const Vec c = load(cos + i, part);
    const Vec s = hn::Mul(load(sin + i, part), sign);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), to + i, part);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), to + half + i, part);
  });
}

template <typename T>
void rope_rows_of(const RopeRows& a, size_t begin, size_t end) {
  const size_t turned_heads = a.query_heads + a.key_value_heads;
  const size_t width = (turned_heads + a.key_value_heads) * 2 * a.half;
  for (size_t row = begin; row < end; ++row) {
    T* x = static_cast<T*>(a.qkv) + row * width;
    const size_t angles = row % a.seq * a.half;
    for (size_t head = 0; head < turned_heads; ++head, x += 2 * a.half) {
      turn_head(x, x, a.half, a.cos + angles, a.sin + angles, 1.0F);
    }
  }
}

// Calls put(source, head) for each head of the result, where source is its gradient: T in place, or a float32
// sum over its group.
template <typename T, typename Put>
HWY_INLINE void for_each_head(const HeadGradient& g, size_t heads, size_t width, size_t batch,
                              size_t position, float* sums, const Put& put) {
  const T* first = static_cast<const T*>(g.data) + static_cast<ptrdiff_t>(batch) * g.batch_stride +
                   static_cast<ptrdiff_t>(position) * g.position_stride;
  for (size_t head = 0; head < heads; ++head) {
    const T* source = first + static_cast<ptrdiff_t>(head * g.group) * g.head_stride;
    if (g.group == 1) {
      put(source, head);
      continue;
    }
    for_each_vector(width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
      Vec sum = load(source + i, part);
      for (size_t member = 1; member < g.group; ++member) {
        sum = hn::Add(sum, load(source + static_cast<ptrdiff_t>(member) * g.head_stride + i, part));
      }
      store(sum, sums + i, part);
    });
    put(static_cast<const float*>(sums), head);
  }
}

template <typename T>
void rope_gradient_rows_of(const RopeGradientRows& a, float* sums, size_t begin, size_t end) {
  const RopeRows& r = a.rope;
  const size_t head_width = 2 * r.half;
  const size_t row_width = (r.query_heads + 2 * r.key_value_heads) * head_width;
  for (size_t row = begin; row < end; ++row) {
    T* queries = static_cast<T*>(r.qkv) + row * row_width;
    T* keys = queries + r.query_heads * head_width;
    T* values = keys + r.key_value_heads * head_width;
    const size_t batch = row / r.seq;
    const size_t position = row % r.seq;
    const float* cos = r.cos + position * r.half;
    const float* sin = r.sin + position * r.half;
    for_each_head<T>(a.dq, r.query_heads, head_width, batch, position, sums,
                     [&](const auto* source, size_t head) HWY_ATTR {
                       turn_head(source, queries + head * head_width, r.half, cos, sin, -1.0F);
                     });
    for_each_head<T>(a.dk, r.key_value_heads, head_width, batch, position, sums,
                     [&](const auto* source, size_t head)
                         HWY_ATTR { turn_head(source, keys + head * head_width, r.half, cos, sin, -1.0F); });
    for_each_head<T>(a.dv, r.key_value_heads, head_width, batch, position, sums,
                     [&](const auto* source, size_t head) HWY_ATTR {
                       for_each_vector(head_width, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
                         store(load(source + i, part), values + head * head_width + i, part);
                       });
                     });
  }
}

void rope_rows(const RopeRows& a, size_t begin, size_t end) {
  if (a.bf16) {
    rope_rows_of<uint16_t>(a, begin, end);
  } else {
    rope_rows_of<float>(a, begin, end);
  }
}

void rope_gradient_rows(const RopeGradientRows& a, float* sums, size_t begin, size_t end) {
  if (a.rope.bf16) {
    rope_gradient_rows_of<uint16_t>(a, sums, begin, end);
  } else {
    rope_gradient_rows_of<float>(a, sums, begin, end);
  }
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(rope_rows);
HWY_EXPORT(rope_gradient_rows);

namespace {

RopeRows rows_of(const at::Tensor& qkv, const RopeTable& table, const RopeShape& shape) {
  return {.bf16 = qkv.scalar_type() == at::kBFloat16,
          .seq = static_cast<size_t>(shape.seq),
          .query_heads = static_cast<size_t>(shape.query_heads),
          .key_value_heads = static_cast<size_t>(shape.key_value_heads),
          .half = static_cast<size_t>(table.cos_Sd.size(1)),
          .cos = table.cos_Sd.const_data_ptr<float>(),
          .sin = table.sin_Sd.const_data_ptr<float>(),
          .qkv = qkv.mutable_data_ptr()};
}

HeadGradient head_gradient(const at::Tensor& t, int64_t heads) {
  return {.data = t.const_data_ptr(),
          .batch_stride = t.stride(0),
          .head_stride = t.stride(1),
          .position_stride = t.stride(2),
          .group = static_cast<size_t>(t.size(1) / heads)};
}

at::Tensor with_features_side_by_side(const at::Tensor& t) { return t.stride(3) == 1 ? t : t.contiguous(); }

}  // namespace

void rope_forward_(const at::Tensor& qkv, const RopeTable& table, const RopeShape& shape) {
  const RopeRows rows = rows_of(qkv, table, shape);
  for_row_ranges(qkv.size(0), qkv.size(1), [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(rope_rows)(rows, begin, end);
  });
}

void rope_backward_pack(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                        const RopeTable& table, const RopeShape& shape, const at::Tensor& dqkv) {
  const at::Tensor queries = with_features_side_by_side(dq);
  const at::Tensor keys = with_features_side_by_side(dk);
  const at::Tensor values = with_features_side_by_side(dv);
  const RopeGradientRows rows = {.rope = rows_of(dqkv, table, shape),
                                 .dq = head_gradient(queries, shape.query_heads),
                                 .dk = head_gradient(keys, shape.key_value_heads),
                                 .dv = head_gradient(values, shape.key_value_heads)};
  for_row_ranges(dqkv.size(0), dqkv.size(1), [&](size_t begin, size_t end) {
    std::vector<float> sums(2 * rows.rope.half);
    HWY_DYNAMIC_DISPATCH(rope_gradient_rows)(rows, sums.data(), begin, end);
  });
}

}  // namespace braid::kernels::cpu
#endif
