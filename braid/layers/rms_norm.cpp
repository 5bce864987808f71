#include "braid/layers/rms_norm.h"

#include <ATen/ATen.h>

#include "braid/kernels/norm.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

RmsNorm::RmsNorm(const Options& options)
    : weight_(tensor::declare_parameter({tensor::whole_tensor(options.name, {options.hidden})})),
      eps_(options.eps) {
  weight_.copies = options.place.mp_degree;
  weight_.partial_over = options.place.sequence_parallel ? options.place.mp_degree : 1;
}

at::Tensor RmsNorm::forward(const at::Tensor& x, Saved* saved) {
  auto result = kernels::rms_norm(as_rows(x), weight_.value, eps_);
  if (saved != nullptr) {
    auto& kept = static_cast<RmsNormSaved&>(*saved);
    kept.x = x;
    kept.rstd = result.rstd_T;
  }
  return from_rows(result.y_TH, x);
}

at::Tensor RmsNorm::backward_input(const at::Tensor& dy, Saved& saved) {
  return backward_input_plus(dy, {}, static_cast<RmsNormSaved&>(saved));
}

at::Tensor RmsNorm::backward_input_plus(const at::Tensor& dy, const at::Tensor& dresidual,
                                        RmsNormSaved& saved) {
  const at::Tensor x_rows = as_rows(saved.x);
  // The weight gradient of a norm is one vector: computing it now avoids keeping x and dy until W.
  saved.dweight =
      at::empty(weight_.sizes(), dy.options().dtype(tensor::main_dtype(weight_.value.scalar_type())));
  kernels::rms_norm_backward_weight(as_rows(dy), x_rows, saved.rstd, saved.dweight,
                                    kernels::Accumulate::kOverwrite);
  const auto residual_rows = dresidual.defined() ? std::optional(as_rows(dresidual)) : std::nullopt;
  const at::Tensor dx =
      kernels::rms_norm_backward_input(as_rows(dy), x_rows, weight_.value, saved.rstd, residual_rows);
  saved.x.reset();
  saved.rstd.reset();
  return from_rows(dx, dy);
}

void RmsNorm::backward_weight(Saved& saved) {
  auto& kept = static_cast<RmsNormSaved&>(saved);
  if (start_gradient(weight_) == kernels::Accumulate::kOverwrite) {
    weight_.main_grad.copy_(kept.dweight);
  } else {
    weight_.main_grad.add_(kept.dweight);
  }
  kept = {};
}

}  // namespace braid::layers
