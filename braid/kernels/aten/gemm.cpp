#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"

namespace braid::kernels::aten {

void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out) {
  at::Tensor result = out;
  at::mm_out(result, x, weight.t());
}

void linear_backward_input(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& out) {
  at::Tensor result = out;
  at::mm_out(result, dy, weight);
}

void accumulate_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& main_grad,
                                Accumulate mode) {
  const double beta = mode == Accumulate::kAdd ? 1.0 : 0.0;
  at::Tensor result = main_grad;
  if (dy.scalar_type() == main_grad.scalar_type()) {
    at::addmm_out(result, main_grad, dy.t(), x, beta);
    return;
  }
  if (dy.is_cuda()) {
    at::addmm_out(result, main_grad, dy.t(), x, main_grad.scalar_type(), beta);
    return;
  }
  at::addmm_out(result, main_grad, dy.to(main_grad.scalar_type()).t(), x.to(main_grad.scalar_type()), beta);
}

}  // namespace braid::kernels::aten
