#include "braid/kernels/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct State {
  at::Tensor master, exp_avg, exp_avg_sq, grad;
};

State state_of(int64_t n, at::ScalarType dtype) {
  return {.master = random_normal({n}, dtype, 1),
          .exp_avg = random_normal({n}, dtype, 2, 0.1),
          .exp_avg_sq = random_normal({n}, dtype, 3, 0.1).square(),
          .grad = random_normal({n}, dtype, 4)};
}

// The update in float64, and a bound on float32's distance from it: a handful of roundings of each term,
// including those of the coefficients.
struct Expected {
  at::Tensor master, exp_avg, exp_avg_sq, master_bound, exp_avg_bound;
};

Expected expected(const State& s, const AdamWStep& step, double unit) {
  const at::Tensor g = wide(s.grad) * step.grad_scale;
  const at::Tensor m = wide(s.exp_avg) * step.beta1 + g * (1 - step.beta1);
  const at::Tensor v = wide(s.exp_avg_sq) * step.beta2 + g * g * (1 - step.beta2);
  const auto t = static_cast<double>(step.step);
  const at::Tensor denominator = v.sqrt() / std::sqrt(1 - std::pow(step.beta2, t)) + step.eps;
  const double size = step.lr / (1 - std::pow(step.beta1, t));
  const at::Tensor kept = wide(s.master) * (1 - step.lr * step.weight_decay);
  // exp_avg: g is rounded twice, its difference from exp_avg once, its factor once, the result once.
  const at::Tensor m_bound = (wide(s.exp_avg).abs() + g.abs()) * 5 * unit;
  return {.master = kept - m / denominator * size,
          .exp_avg = m,
          .exp_avg_sq = v,
          // exp_avg_sq is within 8 u, its root within 5 u, the quotient by it and the coefficients 5 more;
          // the error of exp_avg passes through.
          .master_bound = kept.abs() * 4 * unit + (m.abs() * 10 * unit + m_bound) / denominator * size,
          .exp_avg_bound = m_bound};
}

class AdamW : public testing::TestWithParam<std::tuple<at::ScalarType, bool, int64_t>> {};

TEST_P(AdamW, IsWithinItsRoundings) {
  const auto [dtype, bf16_value, size] = GetParam();
  const double unit = unit_of(dtype);
  for (const int64_t number : {int64_t{1}, int64_t{1000}}) {
    const AdamWStep step = {.lr = 3e-4,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .step = number,
                            .grad_scale = 0.3};
    const State before = state_of(size, dtype);
    const Expected want = expected(before, step, unit);
    on_every_instruction_set([&](const std::string& set) {
      SCOPED_TRACE(set);
      State s = state_of(size, dtype);
      const at::Tensor value = bf16_value ? at::zeros({size}, at::kBFloat16) : s.master;
      adamw_(s.master, s.exp_avg, s.exp_avg_sq, s.grad, value, step);
      EXPECT_LE(worst(s.exp_avg, want.exp_avg, want.exp_avg_bound), 1);
      EXPECT_LE(worst(s.exp_avg_sq, want.exp_avg_sq, want.exp_avg_sq * 8 * unit), 1);
      EXPECT_LE(worst(s.master, want.master, want.master_bound), 1);
      EXPECT_TRUE(same_bits(s.grad, before.grad)) << "the gradient is only read";
      EXPECT_TRUE(same_bits(value, s.master.to(value.scalar_type())));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdamW,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble), testing::Bool(),
                                          testing::Values(1, 17, 1000, 70001)));

// Both are within the bound of the exact update, and so within twice the bound of each other.
TEST(AdamWAgainstTorch, TenStepsOfOneStepEachAgree) {
  State s = state_of(5000, at::kFloat);
  for (int64_t number = 1; number <= 10; ++number) {
    const AdamWStep step = {.lr = 1e-3, .weight_decay = 0.01, .step = number};
    const Expected want = expected(s, step, kUnitFloat);
    State torch = {s.master.clone(), s.exp_avg.clone(), s.exp_avg_sq.clone(), s.grad.clone()};
    at::_fused_adamw_({torch.master}, {torch.grad}, {torch.exp_avg}, {torch.exp_avg_sq}, {},
                      {at::tensor(static_cast<float>(number))}, step.lr, step.beta1, step.beta2,
                      step.weight_decay, step.eps, /*amsgrad=*/false, /*maximize=*/false);
    adamw_(s.master, s.exp_avg, s.exp_avg_sq, s.grad, s.master, step);
    EXPECT_LE(worst(s.master, wide(torch.master), want.master_bound * 2), 1) << number;
    s.grad = random_normal({5000}, at::kFloat, 10 + static_cast<uint64_t>(number));
  }
}

TEST(AdamWThreads, ResultsDoNotDependOnTheirNumber) {
  const auto run = [](int threads) {
    at::set_num_threads(threads);
    const State s = state_of(200001, at::kFloat);
    const at::Tensor value = at::empty({200001}, at::kBFloat16);
    adamw_(s.master, s.exp_avg, s.exp_avg_sq, s.grad, value, {.lr = 1e-3});
    at::set_num_threads(1);
    return s.master;
  };
  EXPECT_TRUE(same_bits(run(1), run(2)));
}

TEST(AdamWMisuse, NamesTheTensor) {
  const at::Tensor t = at::ones({4});
  EXPECT_THAT([&] { adamw_(t, t.clone(), t.clone(), at::ones({4}, at::kBFloat16), t, {.lr = 1}); },
              ThrowsMessage<ShapeError>(HasSubstr("grad must be [4] Float cpu, got [4] BFloat16 cpu")));
  EXPECT_THAT([&] { adamw_(t, t.clone(), t.clone(), t.clone(), at::ones({5}), {.lr = 1}); },
              ThrowsMessage<ShapeError>(HasSubstr("value must be [4]")));
  EXPECT_THAT([&] { adamw_(t, t.clone(), t.clone(), t.clone(), t, {.lr = 1, .step = 0}); },
              ThrowsMessage<ConfigError>(HasSubstr("steps count from 1, got step 0")));
}

}  // namespace
}  // namespace braid::kernels
