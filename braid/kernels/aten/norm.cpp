#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"

namespace braid::kernels::aten {

void rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& y,
              const at::Tensor& rstd) {
  const at::ScalarType wide = wide_dtype(x);
  const at::Tensor wide_x = x.to(wide);
  rstd.copy_((wide_x.square().mean(1) + eps).rsqrt());
  y.copy_(wide_x * rstd.unsqueeze(1) * weight.to(wide));
}

void add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, double eps,
                  const at::Tensor& sum, const at::Tensor& y, const at::Tensor& rstd) {
  sum.copy_(x + branch);
  rms_norm(sum, weight, eps, y, rstd);
}

void rms_norm_backward_input(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& rstd, const std::optional<at::Tensor>& dresidual,
                             const at::Tensor& dx) {
  const at::ScalarType wide = wide_dtype(x);
  const at::Tensor g = dy.to(wide) * weight.to(wide);
  const at::Tensor normed = x.to(wide) * rstd.unsqueeze(1);
  at::Tensor result = (g - normed * (g * normed).mean(1, true)) * rstd.unsqueeze(1);
  if (dresidual) result += *dresidual;
  dx.copy_(result);
}

void rms_norm_backward_weight(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                              const at::Tensor& main_grad, Accumulate mode) {
  const at::ScalarType wide = wide_dtype(x);
  const at::Tensor gradient = (dy.to(wide) * x.to(wide) * rstd.unsqueeze(1)).sum(0);
  if (mode == Accumulate::kAdd) {
    main_grad.add_(gradient);
  } else {
    main_grad.copy_(gradient);
  }
}

}  // namespace braid::kernels::aten
