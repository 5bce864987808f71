#include "braid/kernels/norm.h"

#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {
namespace {

void check_norm(const at::Tensor& x, const at::Tensor& weight) {
  require_matrix(x, "x");
  require_tensor(weight, "weight", {x.size(1)}, x.scalar_type(), x);
}

at::Tensor result_like(const std::optional<at::Tensor>& out, const char* name, const at::Tensor& like) {
  if (!out) return at::empty_like(like);
  require_tensor(*out, name, like.sizes(), like.scalar_type(), like);
  return *out;
}

}  // namespace

RmsNormResult rms_norm(const at::Tensor& x_TH, const at::Tensor& weight_H, double eps) {
  check_norm(x_TH, weight_H);
  RmsNormResult result = {.y_TH = at::empty_like(x_TH),
                          .rstd_T = at::empty({x_TH.size(0)}, x_TH.options().dtype(wide_dtype(x_TH)))};
  if (cpu::handles(x_TH)) {
    cpu::rms_norm(x_TH, weight_H, eps, result.y_TH, result.rstd_T);
  } else {
    aten::rms_norm(x_TH, weight_H, eps, result.y_TH, result.rstd_T);
  }
  return result;
}

AddRmsNormResult add_rms_norm(const at::Tensor& x_TH, const at::Tensor& branch_TH, const at::Tensor& weight_H,
                              double eps, const std::optional<at::Tensor>& sum_out) {
  check_norm(x_TH, weight_H);
  require_tensor(branch_TH, "branch", x_TH.sizes(), x_TH.scalar_type(), x_TH);
  AddRmsNormResult result = {.sum_TH = result_like(sum_out, "sum_out", x_TH),
                             .y_TH = at::empty_like(x_TH),
                             .rstd_T = at::empty({x_TH.size(0)}, x_TH.options().dtype(wide_dtype(x_TH)))};
  if (cpu::handles(x_TH)) {
    cpu::add_rms_norm(x_TH, branch_TH, weight_H, eps, result.sum_TH, result.y_TH, result.rstd_T);
  } else {
    aten::add_rms_norm(x_TH, branch_TH, weight_H, eps, result.sum_TH, result.y_TH, result.rstd_T);
  }
  return result;
}

at::Tensor rms_norm_backward_input(const at::Tensor& dy_TH, const at::Tensor& x_TH,
                                   const at::Tensor& weight_H, const at::Tensor& rstd_T,
                                   const std::optional<at::Tensor>& dresidual_TH,
                                   const std::optional<at::Tensor>& out) {
  check_norm(x_TH, weight_H);
  require_tensor(dy_TH, "dy", x_TH.sizes(), x_TH.scalar_type(), x_TH);
  require_tensor(rstd_T, "rstd", {x_TH.size(0)}, wide_dtype(x_TH), x_TH);
  if (dresidual_TH) require_tensor(*dresidual_TH, "dresidual", x_TH.sizes(), x_TH.scalar_type(), x_TH);
  at::Tensor dx = result_like(out, "out", x_TH);
  if (cpu::handles(dy_TH)) {
    cpu::rms_norm_backward_input(dy_TH, x_TH, weight_H, rstd_T, dresidual_TH, dx);
  } else {
    aten::rms_norm_backward_input(dy_TH, x_TH, weight_H, rstd_T, dresidual_TH, dx);
  }
  return dx;
}

void rms_norm_backward_weight(const at::Tensor& dy_TH, const at::Tensor& x_TH, const at::Tensor& rstd_T,
                              const at::Tensor& main_grad_H, Accumulate mode) {
  require_matrix(x_TH, "x");
  require_tensor(dy_TH, "dy", x_TH.sizes(), x_TH.scalar_type(), x_TH);
  require_tensor(rstd_T, "rstd", {x_TH.size(0)}, wide_dtype(x_TH), x_TH);
  require_tensor(main_grad_H, "main_grad", {x_TH.size(1)}, wide_dtype(x_TH), x_TH);
  if (cpu::handles(dy_TH)) {
    cpu::rms_norm_backward_weight(dy_TH, x_TH, rstd_T, main_grad_H, mode);
  } else {
    aten::rms_norm_backward_weight(dy_TH, x_TH, rstd_T, main_grad_H, mode);
  }
}

}  // namespace braid::kernels
