// The arguments of the fused kernels: plain pointers and sizes. Elements are float32, or bfloat16 if `bf16`
// is set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::kernels::cpu {

struct NormRows {
  bool bf16 = false;
  size_t width = 0;
  double eps = 0;
  const void* x = nullptr;
  const void* branch = nullptr;  // null if nothing is added to x
  void* sum = nullptr;           // written if branch is given
  const void* weight = nullptr;
  void* y = nullptr;
  float* rstd = nullptr;
};

struct NormGradientRows {
  bool bf16 = false;
  size_t width = 0;
  size_t rows = 0;
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* rstd = nullptr;
  const void* dresidual = nullptr;  // may be null
  void* dx = nullptr;
  float* main_grad = nullptr;
  bool overwrite = false;
};

struct RopeRows {
  bool bf16 = false;
  size_t seq = 0;
  size_t query_heads = 0;
  size_t key_value_heads = 0;
  size_t half = 0;  // of a head
  const float* cos = nullptr;
  const float* sin = nullptr;
  void* qkv = nullptr;
};

/// One of dq, dk, dv: strides in elements; a head's features are contiguous.
struct HeadGradient {
  const void* data = nullptr;
  ptrdiff_t batch_stride = 0;
  ptrdiff_t head_stride = 0;
  ptrdiff_t position_stride = 0;
  size_t group = 1;  // neighbouring heads that are summed into one
};

struct RopeGradientRows {
  RopeRows rope;  // its qkv is the result
  HeadGradient dq, dk, dv;
};

struct SwigluRows {
  bool bf16 = false;
  size_t half = 0;
  const void* gate_up = nullptr;
  const void* dy = nullptr;  // null in the forward pass
  void* d_gate_up = nullptr;
  void* activation = nullptr;
};

/// Logits per block, which fits in the first-level cache.
inline constexpr size_t kCrossEntropyBlock = 4096;

struct CrossEntropyRows {
  bool bf16 = false;
  size_t width = 0;
  void* logits = nullptr;
  const int64_t* targets = nullptr;
  double* losses = nullptr;
  bool with_gradient = false;
  double grad_scale = 0;
};

/// A part of rows: ids [begin, begin + width) of the vocabulary.
struct SoftmaxPartRows {
  bool bf16 = false;
  size_t width = 0;
  int64_t begin = 0;
  void* logits = nullptr;
  const int64_t* targets = nullptr;
  float* max = nullptr;        // of the part when statistics are taken, of the whole row for the gradient
  float* sum = nullptr;        // likewise
  float* own_logit = nullptr;  // statistics only
  double grad_scale = 0;       // gradient only
};

/// Coefficients of one AdamW step, rounded from float64.
struct AdamWBlock {
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  const float* grad = nullptr;
  uint16_t* bf16_value = nullptr;  // null if value is master itself
  float grad_scale = 1;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float root_correction2 = 1;
  float eps = 0;
  float keep = 1;       // 1 - lr * weight_decay
  float step_size = 0;  // lr / (1 - beta1^step)
};

/// A matrix copied from bfloat16 to float32 or back; strides in elements.
struct ConvertRows {
  bool to_bf16 = false;
  size_t width = 0;
  const void* from = nullptr;
  size_t from_stride = 0;
  void* to = nullptr;
  size_t to_stride = 0;
};

}  // namespace braid::kernels::cpu
