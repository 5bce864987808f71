#include "braid/kernels/cpu/gemm.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "braid/base/checked.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/cpu/kernels.h"

// MKL's product with a float32 result, which libtorch_cpu.so exports if it is built with MKL; null otherwise.
extern "C" __attribute__((weak)) void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b,
                                                             int m, int n, int k, float alpha,
                                                             const uint16_t* a, int lda, const uint16_t* b,
                                                             int ldb, float beta, float* c, int ldc);

namespace braid::kernels::cpu {
namespace {

// Output features of one block: enough for a product at full speed, few enough that a block's float32 copies
// mostly stay in the second-level cache.
constexpr int64_t kBlock = 512;

at::Tensor empty_float(int64_t rows, int64_t columns) { return at::empty({rows, columns}, at::kFloat); }

at::Tensor to_float(const at::Tensor& t) {
  at::Tensor copy = empty_float(t.size(0), t.size(1));
  convert(t, copy);
  return copy;
}

// dy^T @ x with MKL: row-major (101), first operand transposed (112), second not (111).
void mkl_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& main_grad, float beta) {
  const int tokens = narrow<int>(dy.size(0));
  const int rows = narrow<int>(dy.size(1));
  const int columns = narrow<int>(x.size(1));
  cblas_gemm_bf16bf16f32(101, 112, 111, rows, columns, tokens, 1.0F,
                         static_cast<const uint16_t*>(dy.const_data_ptr()), rows,
                         static_cast<const uint16_t*>(x.const_data_ptr()), columns, beta,
                         main_grad.mutable_data_ptr<float>(), columns);
}

}  // namespace

CpuFeatures this_cpu() {
  CpuFeatures features;
#if defined(__x86_64__)
  features.amx = __builtin_cpu_supports("amx-bf16") != 0;
  features.avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  features.intel = __builtin_cpu_is("intel") != 0;
  features.avx512_fp16 = __builtin_cpu_supports("avx512fp16") != 0;
#endif
  return features;
}

Bf16Gemm faster_bf16_gemm(const CpuFeatures& cpu) {
  if (cpu.amx) return Bf16Gemm::kNative;
  const bool full_rate = cpu.avx512_bf16 && !(cpu.intel && cpu.avx512_fp16);
  return full_rate ? Bf16Gemm::kNative : Bf16Gemm::kFloat32;
}

void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out, Bf16Gemm how) {
  if (how == Bf16Gemm::kNative) return aten::linear(x, weight, out);
  const at::Tensor wide_x = to_float(x);
  const int64_t block = std::min(kBlock, weight.size(0));
  const at::Tensor weight_buffer = empty_float(block, weight.size(1));
  const at::Tensor result_buffer = at::empty({x.size(0) * block}, at::kFloat);
  for (int64_t begin = 0; begin < weight.size(0); begin += block) {
    const int64_t size = std::min(block, weight.size(0) - begin);
    const at::Tensor wide_weight = weight_buffer.narrow(0, 0, size);
    convert(weight.narrow(0, begin, size), wide_weight);
    at::Tensor result = result_buffer.narrow(0, 0, x.size(0) * size).view({x.size(0), size});
    at::mm_out(result, wide_x, wide_weight.t());
    convert(result, out.narrow(1, begin, size));
  }
}

void linear_backward_input(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& out,
                           Bf16Gemm how) {
  if (how == Bf16Gemm::kNative) return aten::linear_backward_input(dy, weight, out);
  const int64_t block = std::min(kBlock, weight.size(0));
  const at::Tensor weight_buffer = empty_float(block, weight.size(1));
  const at::Tensor dy_buffer = at::empty({dy.size(0) * block}, at::kFloat);
  at::Tensor sum = empty_float(out.size(0), out.size(1));
  for (int64_t begin = 0; begin < weight.size(0); begin += block) {
    const int64_t size = std::min(block, weight.size(0) - begin);
    const at::Tensor wide_weight = weight_buffer.narrow(0, 0, size);
    convert(weight.narrow(0, begin, size), wide_weight);
    const at::Tensor wide_dy = dy_buffer.narrow(0, 0, dy.size(0) * size).view({dy.size(0), size});
    convert(dy.narrow(1, begin, size), wide_dy);
    at::addmm_out(sum, sum, wide_dy, wide_weight, begin == 0 ? 0.0 : 1.0);
  }
  convert(sum, out);
}

void accumulate_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& main_grad,
                                Accumulate mode, Bf16Gemm how) {
  const float beta = mode == Accumulate::kAdd ? 1.0F : 0.0F;
  // On AMD processors MKL has no fast bfloat16 product; oneDNN has one, but cannot add to a float32 matrix
  // from here.
  if (how == Bf16Gemm::kNative && this_cpu().intel && cblas_gemm_bf16bf16f32 != nullptr) {
    return mkl_weight_gradient(dy, x, main_grad, beta);
  }
  const at::Tensor wide_x = to_float(x);
  const int64_t block = std::min(kBlock, dy.size(1));
  const at::Tensor dy_buffer = at::empty({dy.size(0) * block}, at::kFloat);
  for (int64_t begin = 0; begin < dy.size(1); begin += block) {
    const int64_t size = std::min(block, dy.size(1) - begin);
    const at::Tensor wide_dy = dy_buffer.narrow(0, 0, dy.size(0) * size).view({dy.size(0), size});
    convert(dy.narrow(1, begin, size), wide_dy);
    at::Tensor rows = main_grad.narrow(0, begin, size);
    at::addmm_out(rows, rows, wide_dy.t(), wide_x, beta);
  }
}

}  // namespace braid::kernels::cpu
