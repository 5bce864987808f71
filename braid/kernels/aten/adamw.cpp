#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "braid/kernels/aten/kernels.h"

namespace braid::kernels::aten {
namespace {

// Three temporaries of the block's size live at once: 1 MiB of float32 on the CPU, where a larger block would
// leave the cache too.
constexpr int64_t kCpuBlock = int64_t{1} << 16;
constexpr int64_t kGpuBlock = int64_t{1} << 26;

void adamw_block(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                 const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step) {
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const at::Tensor g = grad * step.grad_scale;
  exp_avg.lerp_(g, 1 - step.beta1);
  exp_avg_sq.mul_(step.beta2).addcmul_(g, g, 1 - step.beta2);
  const at::Tensor denominator = exp_avg_sq.sqrt().div_(std::sqrt(correction2)).add_(step.eps);
  master.mul_(1 - step.lr * step.weight_decay).addcdiv_(exp_avg, denominator, -step.lr / correction1);
  if (!value.is_same(master)) value.copy_(master);
}

}  // namespace

void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step) {
  const int64_t block = master.is_cpu() ? kCpuBlock : kGpuBlock;
  const auto flat = [](const at::Tensor& t) { return t.view({-1}); };
  const bool one_tensor = value.data_ptr() == master.data_ptr();
  for (int64_t begin = 0; begin < master.numel(); begin += block) {
    const int64_t size = std::min(block, master.numel() - begin);
    const at::Tensor part = flat(master).narrow(0, begin, size);
    adamw_block(part, flat(exp_avg).narrow(0, begin, size), flat(exp_avg_sq).narrow(0, begin, size),
                flat(grad).narrow(0, begin, size), one_tensor ? part : flat(value).narrow(0, begin, size),
                step);
  }
}

}  // namespace braid::kernels::aten
