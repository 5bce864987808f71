#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"

namespace braid::kernels::aten {
namespace {

// Both halves of x [..., d] rotated by the angles of cos and sin [..., d/2].
at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half);
  const at::Tensor b = x.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1);
}

// [batch, seq, n, d] -> [batch, seq, heads, d], each group of n / heads neighbours summed in ascending order.
at::Tensor group_sums(const at::Tensor& x, int64_t heads) {
  const int64_t group = x.size(2) / heads;
  const at::Tensor grouped = x.unflatten(2, {heads, group});
  at::Tensor sum = grouped.select(3, 0);
  for (int64_t i = 1; i < group; ++i) sum = sum + grouped.select(3, i);
  return sum;
}

}  // namespace

void rope_forward_(const at::Tensor& qkv, const RopeTable& table, const RopeShape& shape) {
  const at::ScalarType wide = wide_dtype(qkv);
  const int64_t head_dim = 2 * table.cos_Sd.size(1);
  const int64_t heads = shape.query_heads + shape.key_value_heads;
  const at::Tensor rows =
      qkv.view({qkv.size(0) / shape.seq, shape.seq, heads + shape.key_value_heads, head_dim});
  const at::Tensor part = rows.narrow(2, 0, heads);
  const at::Tensor cos = table.cos_Sd.narrow(0, 0, shape.seq).unsqueeze(1).to(wide);
  const at::Tensor sin = table.sin_Sd.narrow(0, 0, shape.seq).unsqueeze(1).to(wide);
  part.copy_(turned(part.to(wide), cos, sin));
}

void rope_backward_pack(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                        const RopeTable& table, const RopeShape& shape, const at::Tensor& dqkv) {
  const at::ScalarType wide = wide_dtype(dqkv);
  const int64_t nq = shape.query_heads;
  const int64_t nkv = shape.key_value_heads;
  const at::Tensor cos = table.cos_Sd.narrow(0, 0, shape.seq).unsqueeze(1).to(wide);
  const at::Tensor minus_sin = -table.sin_Sd.narrow(0, 0, shape.seq).unsqueeze(1).to(wide);
  const at::Tensor rows = dqkv.view({dq.size(0), shape.seq, nq + 2 * nkv, dq.size(3)});
  rows.narrow(2, 0, nq).copy_(turned(dq.transpose(1, 2).to(wide), cos, minus_sin));
  rows.narrow(2, nq, nkv).copy_(turned(group_sums(dk.transpose(1, 2).to(wide), nkv), cos, minus_sin));
  rows.narrow(2, nq + nkv, nkv).copy_(group_sums(dv.transpose(1, 2).to(wide), nkv));
}

}  // namespace braid::kernels::aten
