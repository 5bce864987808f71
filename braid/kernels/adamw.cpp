#include "braid/kernels/adamw.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {

void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step) {
  require_floating(master, "master");
  require_tensor(master, "master", master.sizes(), wide_dtype(master), master);
  require_tensor(exp_avg, "exp_avg", master.sizes(), master.scalar_type(), master);
  require_tensor(exp_avg_sq, "exp_avg_sq", master.sizes(), master.scalar_type(), master);
  require_tensor(grad, "grad", master.sizes(), master.scalar_type(), master);
  require_floating(value, "value");
  require_tensor(value, "value", master.sizes(), value.scalar_type(), master);
  require<ConfigError>(step.step >= 1, "AdamW's steps count from 1, got step ", step.step);
  const bool one_tensor = value.data_ptr() == master.data_ptr();
  if (cpu::handles(master) && (one_tensor || value.scalar_type() == at::kBFloat16)) {
    cpu::adamw_(master, exp_avg, exp_avg_sq, grad, value, step);
  } else {
    aten::adamw_(master, exp_avg, exp_avg_sq, grad, value, step);
  }
}

}  // namespace braid::kernels
