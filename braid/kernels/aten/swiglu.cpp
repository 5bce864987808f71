#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"

namespace braid::kernels::aten {

void swiglu(const at::Tensor& gate_up, const at::Tensor& y) {
  const at::Tensor wide_gate_up = gate_up.to(wide_dtype(gate_up));
  const int64_t half = gate_up.size(1) / 2;
  y.copy_(at::silu(wide_gate_up.narrow(1, 0, half)) * wide_gate_up.narrow(1, half, half));
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up, const at::Tensor& d_gate_up,
                     const at::Tensor& activation) {
  const at::ScalarType wide = wide_dtype(gate_up);
  const int64_t half = gate_up.size(1) / 2;
  const at::Tensor wide_dy = dy.to(wide);
  const at::Tensor gate = gate_up.narrow(1, 0, half).to(wide);
  const at::Tensor up = gate_up.narrow(1, half, half).to(wide);
  const at::Tensor s = at::sigmoid(gate);
  const at::Tensor silu = at::silu(gate);
  const at::Tensor d_gate = wide_dy * up * s * (1 + gate * (1 - s));
  activation.copy_(silu * up);
  d_gate_up.narrow(1, half, half).copy_(wide_dy * silu);
  d_gate_up.narrow(1, 0, half).copy_(d_gate);
}

}  // namespace braid::kernels::aten
