// Causal softmax attention by ATen's flash kernels, forward and backward called directly.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace braid::layers {

/// What the forward kernel passes to the backward kernel besides q, k and v.
struct AttentionResult {
  at::Tensor out;  ///< [b, heads, s, d], strides of a [b, s, heads, d] tensor, so that its rows view as [b,
                   ///< s, heads * d]
  at::Tensor
      logsumexp;  ///< [b, heads, s] or [b, s, heads] depending on the kernel; float32 (float64 for float64)
  at::Tensor rng_state;  ///< CUDA only; undefined on the CPU
  at::Tensor rng_unused;

  std::vector<const at::Tensor*> tensors() const { return {&out, &logsumexp, &rng_state, &rng_unused}; }
};

struct AttentionGradient {
  at::Tensor dq;  ///< [b, heads, s, d]
  at::Tensor dk;  ///< [b, heads or key-value heads, s, d]: per query head if the kernel needs repeated keys
  at::Tensor dv;  ///< as dk
};

/// softmax(q k^T / sqrt(d), causal) v.
///
///   q     [b, heads, s, d]           float32, bfloat16 or (CPU) float64; any strides with the last one 1
///   k, v  [b, key-value heads, s, d] same dtype; query head i reads key-value head i / (heads / key-value
///   heads)
///
/// CPU: the flash kernel in every dtype. CUDA: the flash kernel for bfloat16, the memory-efficient one for
/// float32; other dtypes throw ConfigError. Source: Dao et al. 2022, arXiv:2205.14135; grouped queries:
/// Ainslie et al. 2023, arXiv:2305.13245.
AttentionResult causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// Gradients of q, k and v for dout [b, heads, s, d]. `result` must come from causal_attention for the same
/// q, k, v.
AttentionGradient causal_attention_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const AttentionResult& result);

}  // namespace braid::layers
