#include "braid/kernels/reduce.h"

#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {

double squared_norm(const at::Tensor& t) {
  require_floating(t, "the tensor of a norm");
  return cpu::handles(t) ? cpu::squared_norm(t) : aten::squared_norm(t);
}

}  // namespace braid::kernels
