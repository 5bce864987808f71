// For tests: Llama's layers as plain formulas in ATen operations, in the input's dtype.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace braid::layers::reference {

inline at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + eps) * weight;
}

/// x [b, n, s, d] rotated by position: halves paired as in Hugging Face's Llama.
inline at::Tensor rope(const at::Tensor& x, double theta) {
  const int64_t s = x.size(2), d = x.size(3);
  const at::Tensor frequency = at::pow(theta, -at::arange(0, d, 2, at::kDouble) / static_cast<double>(d));
  const at::Tensor angle = at::outer(at::arange(s, at::kDouble), frequency);
  // Rounded to float32 like the layers' table.
  const at::Tensor cos = angle.cos().to(at::kFloat).to(x.dtype()),
                   sin = angle.sin().to(at::kFloat).to(x.dtype());
  const at::Tensor a = x.narrow(3, 0, d / 2), b = x.narrow(3, d / 2, d / 2);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, 3);
}

struct AttentionShape {
  int64_t heads, key_value_heads, head_dim;
  double theta = 10000.0, eps = 1e-6;
};

/// x + o(attention(rope(qkv(norm(x))))); weights: norm, qkv, o.
inline at::Tensor attention(const at::Tensor& x, const std::vector<at::Tensor>& w,
                            const AttentionShape& shape) {
  const int64_t b = x.size(0), s = x.size(1), n = shape.heads, kv = shape.key_value_heads, d = shape.head_dim;
  const at::Tensor qkv =
      at::matmul(rms_norm(x, w[0], shape.eps), w[1].t()).view({b, s, n + 2 * kv, d}).transpose(1, 2);
  const at::Tensor q = rope(qkv.narrow(1, 0, n), shape.theta);
  const at::Tensor k = at::repeat_interleave(rope(qkv.narrow(1, n, kv), shape.theta), n / kv, 1);
  const at::Tensor v = at::repeat_interleave(qkv.narrow(1, n + kv, kv), n / kv, 1);
  at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(d));
  scores = scores.masked_fill(at::ones({s, s}, at::kBool).triu(1), -INFINITY);
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), v).transpose(1, 2).reshape({b, s, n * d});
  return x + at::matmul(mixed, w[2].t());
}

/// x + down(silu(gate) * up); weights: norm, gate_up, down.
inline at::Tensor mlp(const at::Tensor& x, const std::vector<at::Tensor>& w, double eps) {
  const auto halves = at::matmul(rms_norm(x, w[0], eps), w[1].t()).chunk(2, -1);
  return x + at::matmul(at::silu(halves[0]) * halves[1], w[2].t());
}

/// Sum over tokens of the cross-entropy; weights: norm, projection.
inline at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels, const std::vector<at::Tensor>& w,
                           double eps) {
  const at::Tensor logits = at::matmul(rms_norm(x, w[0], eps), w[1].t());
  return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), labels.reshape(-1), {},
                                at::Reduction::Sum, -100);
}

}  // namespace braid::layers::reference
