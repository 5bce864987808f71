#include "braid/layers/accumulate.h"

#include <ATen/ATen.h>

#include <utility>

namespace braid::layers {

at::Tensor as_rows(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }

at::Tensor from_rows(const at::Tensor& rows, const at::Tensor& like) {
  return rows.view({like.size(0), like.size(1), rows.size(-1)});
}

kernels::Accumulate start_gradient(tensor::Parameter& parameter) {
  return std::exchange(parameter.gradient_started, true) ? kernels::Accumulate::kAdd
                                                         : kernels::Accumulate::kOverwrite;
}

}  // namespace braid::layers
