#include "braid/layers/linear.h"

#include <ATen/ATen.h>

#include "braid/kernels/gemm.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

Linear::Linear(std::vector<tensor::TensorSlice> slices, std::string name)
    : weight_(tensor::declare_parameter(std::move(slices), std::move(name))) {}

at::Tensor Linear::forward(const at::Tensor& x, Saved* saved) {
  if (saved != nullptr) static_cast<LinearSaved&>(*saved).x = x;
  return from_rows(kernels::linear(as_rows(x), weight_.value), x);
}

at::Tensor Linear::backward_input(const at::Tensor& dy, Saved& saved) {
  static_cast<LinearSaved&>(saved).dy = dy;
  return from_rows(kernels::linear_backward_input(as_rows(dy), weight_.value), dy);
}

void Linear::backward_weight(Saved& saved) {
  auto& kept = static_cast<LinearSaved&>(saved);
  kernels::accumulate_weight_gradient(as_rows(kept.dy), as_rows(kept.x), weight_.main_grad,
                                      start_gradient(weight_));
  kept = {};
}

}  // namespace braid::layers
