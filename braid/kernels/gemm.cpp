#include "braid/kernels/gemm.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/gemm.h"
#include "braid/kernels/gemm_clock.h"

namespace braid::kernels {
namespace {

at::Tensor result_matrix(const std::optional<at::Tensor>& out, int64_t rows, int64_t columns,
                         const at::Tensor& like) {
  if (!out) return at::empty({rows, columns}, like.options());
  require_tensor(*out, "out", {rows, columns}, like.scalar_type(), like);
  return *out;
}

bool is_cpu_bf16(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kBFloat16; }

}  // namespace

at::Tensor linear(const at::Tensor& x_TK, const at::Tensor& weight_NK, const std::optional<at::Tensor>& out) {
  require_matrix(x_TK, "x");
  require_matrix(weight_NK, "weight");
  require_tensor(weight_NK, "weight", {weight_NK.size(0), x_TK.size(1)}, x_TK.scalar_type(), x_TK);
  at::Tensor y = result_matrix(out, x_TK.size(0), weight_NK.size(0), x_TK);
  const GemmTimer timer;
  if (is_cpu_bf16(x_TK)) {
    cpu::linear(x_TK, weight_NK, y, cpu::faster_bf16_gemm(cpu::this_cpu()));
  } else {
    aten::linear(x_TK, weight_NK, y);
  }
  return y;
}

at::Tensor linear_backward_input(const at::Tensor& dy_TN, const at::Tensor& weight_NK,
                                 const std::optional<at::Tensor>& out) {
  require_matrix(dy_TN, "dy");
  require_matrix(weight_NK, "weight");
  require_tensor(weight_NK, "weight", {dy_TN.size(1), weight_NK.size(1)}, dy_TN.scalar_type(), dy_TN);
  at::Tensor dx = result_matrix(out, dy_TN.size(0), weight_NK.size(1), dy_TN);
  const GemmTimer timer;
  if (is_cpu_bf16(dy_TN)) {
    cpu::linear_backward_input(dy_TN, weight_NK, dx, cpu::faster_bf16_gemm(cpu::this_cpu()));
  } else {
    aten::linear_backward_input(dy_TN, weight_NK, dx);
  }
  return dx;
}

void accumulate_weight_gradient(const at::Tensor& dy_TN, const at::Tensor& x_TK,
                                const at::Tensor& main_grad_NK, Accumulate mode) {
  require_matrix(dy_TN, "dy");
  require_matrix(x_TK, "x");
  require_tensor(x_TK, "x", {dy_TN.size(0), x_TK.size(1)}, dy_TN.scalar_type(), dy_TN);
  require_tensor(main_grad_NK, "main_grad", {dy_TN.size(1), x_TK.size(1)}, wide_dtype(dy_TN), dy_TN);
  const GemmTimer timer;
  if (is_cpu_bf16(dy_TN)) {
    cpu::accumulate_weight_gradient(dy_TN, x_TK, main_grad_NK, mode, cpu::faster_bf16_gemm(cpu::this_cpu()));
  } else {
    aten::accumulate_weight_gradient(dy_TN, x_TK, main_grad_NK, mode);
  }
}

}  // namespace braid::kernels
