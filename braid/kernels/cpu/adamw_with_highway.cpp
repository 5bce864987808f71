// AdamW: each number is read and written once.
#include "braid/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "braid/kernels/cpu/adamw_with_highway.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <ATen/ATen.h>

#include <cmath>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/cpu/parallel.h"
#include "braid/kernels/cpu/rows.h"
#include "braid/kernels/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

void adamw_block(const AdamWBlock& a, size_t begin, size_t end) {
  float* master = a.master + begin;
  float* exp_avg = a.exp_avg + begin;
  float* exp_avg_sq = a.exp_avg_sq + begin;
  const float* grad = a.grad + begin;
  const Vec grad_scale = hn::Set(kF32, a.grad_scale);
  const Vec one_minus_beta1 = hn::Set(kF32, a.one_minus_beta1);
  const Vec beta2 = hn::Set(kF32, a.beta2);
  const Vec one_minus_beta2 = hn::Set(kF32, a.one_minus_beta2);
  const Vec root_correction2 = hn::Set(kF32, a.root_correction2);
  const Vec eps = hn::Set(kF32, a.eps);
  const Vec keep = hn::Set(kF32, a.keep);
  const Vec step_size = hn::Set(kF32, a.step_size);
  const auto updated = [&](size_t i, auto part) HWY_ATTR {
    const Vec g = hn::Mul(load(grad + i, part), grad_scale);
    const Vec old_m = load(exp_avg + i, part);
    const Vec m = hn::MulAdd(hn::Sub(g, old_m), one_minus_beta1, old_m);
    const Vec v = hn::MulAdd(load(exp_avg_sq + i, part), beta2, hn::Mul(hn::Mul(g, g), one_minus_beta2));
    store(m, exp_avg + i, part);
    store(v, exp_avg_sq + i, part);
    const Vec denominator = hn::Add(hn::Div(hn::Sqrt(v), root_correction2), eps);
    return hn::NegMulAdd(hn::Div(m, denominator), step_size, hn::Mul(load(master + i, part), keep));
  };
  if (a.bf16_value != nullptr) {
    uint16_t* value = a.bf16_value + begin;
    for_each_vector(end - begin, [&](size_t i, auto /*slot*/, auto part) HWY_ATTR {
      const Vec p = updated(i, part);
      store(p, master + i, part);
      store(p, value + i, part);
    });
  } else {
    for_each_vector(end - begin, [&](size_t i, auto /*slot*/, auto part)
                                     HWY_ATTR { store(updated(i, part), master + i, part); });
  }
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braid::kernels::cpu {

HWY_EXPORT(adamw_block);

void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step) {
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const AdamWBlock block = {.master = master.mutable_data_ptr<float>(),
                            .exp_avg = exp_avg.mutable_data_ptr<float>(),
                            .exp_avg_sq = exp_avg_sq.mutable_data_ptr<float>(),
                            .grad = grad.const_data_ptr<float>(),
                            .bf16_value = value.scalar_type() == at::kBFloat16
                                              ? static_cast<uint16_t*>(value.mutable_data_ptr())
                                              : nullptr,
                            .grad_scale = static_cast<float>(step.grad_scale),
                            .one_minus_beta1 = static_cast<float>(1 - step.beta1),
                            .beta2 = static_cast<float>(step.beta2),
                            .one_minus_beta2 = static_cast<float>(1 - step.beta2),
                            .root_correction2 = static_cast<float>(std::sqrt(correction2)),
                            .eps = static_cast<float>(step.eps),
                            .keep = static_cast<float>(1 - step.lr * step.weight_decay),
                            .step_size = static_cast<float>(step.lr / correction1)};
  for_row_ranges(master.numel(), 1, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_block)(block, begin, end);
  });
}

}  // namespace braid::kernels::cpu
#endif
