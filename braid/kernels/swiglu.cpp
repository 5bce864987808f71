#include "braid/kernels/swiglu.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {
namespace {

void check_gate_up(const at::Tensor& gate_up) {
  require_matrix(gate_up, "gate_up");
  require<ShapeError>(gate_up.size(1) % 2 == 0, "gate_up must have an even number of columns, got ",
                      describe(gate_up));
}

at::Tensor empty_half(const at::Tensor& gate_up) {
  return at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
}

at::Tensor backward_into(const at::Tensor& dy, const at::Tensor& gate_up, const at::Tensor& d_gate_up) {
  require_tensor(dy, "dy", {gate_up.size(0), gate_up.size(1) / 2}, gate_up.scalar_type(), gate_up);
  at::Tensor activation = empty_half(gate_up);
  if (cpu::handles(dy)) {
    cpu::swiglu_backward(dy, gate_up, d_gate_up, activation);
  } else {
    aten::swiglu_backward(dy, gate_up, d_gate_up, activation);
  }
  return activation;
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up_TJ) {
  check_gate_up(gate_up_TJ);
  at::Tensor y = empty_half(gate_up_TJ);
  if (cpu::handles(y)) {
    cpu::swiglu(gate_up_TJ, y);
  } else {
    aten::swiglu(gate_up_TJ, y);
  }
  return y;
}

SwigluGradient swiglu_backward(const at::Tensor& dy_TI, const at::Tensor& gate_up_TJ) {
  check_gate_up(gate_up_TJ);
  SwigluGradient result = {.d_gate_up_TJ = at::empty_like(gate_up_TJ), .activation_TI = {}};
  result.activation_TI = backward_into(dy_TI, gate_up_TJ, result.d_gate_up_TJ);
  return result;
}

at::Tensor swiglu_backward_(const at::Tensor& dy_TI, const at::Tensor& gate_up_TJ) {
  check_gate_up(gate_up_TJ);
  return backward_into(dy_TI, gate_up_TJ, gate_up_TJ);
}

}  // namespace braid::kernels
