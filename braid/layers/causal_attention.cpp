#include "braid/layers/causal_attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "braid/base/error.h"

namespace braid::layers {
namespace {

enum class Kernel { kCpuFlash, kCudaFlash, kCudaEfficient };

Kernel kernel_for(const at::Tensor& q) {
  if (q.is_cpu()) return Kernel::kCpuFlash;
  const at::ScalarType dtype = q.scalar_type();
  if (dtype == at::kBFloat16 || dtype == at::kHalf) return Kernel::kCudaFlash;
  require<ConfigError>(dtype == at::kFloat, "attention on a GPU runs in bfloat16 or float32, not in ", dtype);
  return Kernel::kCudaEfficient;
}

/// [b, key-value heads, s, d] with each head repeated for the queries of its group, for kernels that do not
/// support groups.
at::Tensor repeat_heads(const at::Tensor& x, int64_t heads) {
  const int64_t group = heads / x.size(1);
  return group == 1 ? x : at::repeat_interleave(x, group, 1);
}

double scale_of(const at::Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.size(-1))); }

}  // namespace

AttentionResult causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor keys = repeat_heads(k, q.size(1));
  const at::Tensor values = repeat_heads(v, q.size(1));
  AttentionResult result;
  switch (kernel_for(q)) {
    case Kernel::kCpuFlash:
      std::tie(result.out, result.logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
          q, keys, values, 0.0, true, std::nullopt, scale_of(q));
      break;
    case Kernel::kCudaFlash: {
      auto out = at::_scaled_dot_product_flash_attention(q, keys, values, 0.0, true, false, scale_of(q));
      result = {std::get<0>(out), std::get<1>(out), std::get<6>(out), std::get<7>(out)};
      break;
    }
    case Kernel::kCudaEfficient:
      std::tie(result.out, result.logsumexp, result.rng_state, result.rng_unused) =
          at::_scaled_dot_product_efficient_attention(q, keys, values, std::nullopt, true, 0.0, true,
                                                      scale_of(q));
      break;
  }
  return result;
}

AttentionGradient causal_attention_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const AttentionResult& result) {
  const at::Tensor keys = repeat_heads(k, q.size(1));
  const at::Tensor values = repeat_heads(v, q.size(1));
  AttentionGradient gradient;
  switch (kernel_for(q)) {
    case Kernel::kCpuFlash:
      std::tie(gradient.dq, gradient.dk, gradient.dv) =
          at::_scaled_dot_product_flash_attention_for_cpu_backward(
              dout, q, keys, values, result.out, result.logsumexp, 0.0, true, std::nullopt, scale_of(q));
      break;
    case Kernel::kCudaFlash:
      std::tie(gradient.dq, gradient.dk, gradient.dv) = at::_scaled_dot_product_flash_attention_backward(
          dout, q, keys, values, result.out, result.logsumexp, {}, {}, q.size(2), q.size(2), 0.0, true,
          result.rng_state, result.rng_unused, scale_of(q));
      break;
    case Kernel::kCudaEfficient: {
      auto out = at::_scaled_dot_product_efficient_attention_backward(
          dout, q, keys, values, {}, result.out, result.logsumexp, result.rng_state, result.rng_unused, 0.0,
          {true, true, true, false}, true, scale_of(q));
      gradient = {std::get<0>(out), std::get<1>(out), std::get<2>(out)};
      break;
    }
  }
  return gradient;
}

}  // namespace braid::layers
