#include "braid/layers/linear.h"

#include <ATen/ATen.h>

#include "braid/kernels/gemm.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

Linear::Linear(std::vector<tensor::TensorSlice> slices, std::string name)
    : weight_(tensor::declare_parameter(std::move(slices), std::move(name))) {}

at::Tensor Linear::product(const at::Tensor& x_TK) const { return kernels::linear(x_TK, weight_.value); }

at::Tensor Linear::input_gradient(const at::Tensor& dy_TN) const {
  return kernels::linear_backward_input(dy_TN, weight_.value);
}

void Linear::add_weight_gradient(const at::Tensor& dy_TN, const at::Tensor& x_TK) {
  kernels::accumulate_weight_gradient(dy_TN, x_TK, weight_.main_grad, start_gradient(weight_));
}

at::Tensor Linear::forward(const at::Tensor& x, Saved* saved) {
  if (saved != nullptr) static_cast<LinearSaved&>(*saved).x = x;
  return from_rows(product(as_rows(x)), x);
}

at::Tensor Linear::backward_input(const at::Tensor& dy, Saved& saved) {
  static_cast<LinearSaved&>(saved).dy = dy;
  return from_rows(input_gradient(as_rows(dy)), dy);
}

void Linear::backward_weight(Saved& saved) {
  auto& kept = static_cast<LinearSaved&>(saved);
  add_weight_gradient(as_rows(kept.dy), as_rows(kept.x));
  kept = {};
}

}  // namespace braid::layers
