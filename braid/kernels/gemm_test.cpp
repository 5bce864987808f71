#include "braid/kernels/gemm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/cpu/gemm.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Size {
  int64_t tokens, inputs, outputs;
};

class Gemm : public testing::TestWithParam<std::tuple<at::ScalarType, Size>> {
 protected:
  at::ScalarType dtype_ = std::get<0>(GetParam());
  at::ScalarType wide_type_ = dtype_ == at::kDouble ? at::kDouble : at::kFloat;
  Size size_ = std::get<1>(GetParam());
  at::Tensor x_ = random_normal({size_.tokens, size_.inputs}, dtype_, 1);
  at::Tensor weight_ = random_normal({size_.outputs, size_.inputs}, dtype_, 2);
  at::Tensor dy_ = random_normal({size_.tokens, size_.outputs}, dtype_, 3);

  // A product of n terms is within (n + 1) u of the sum of their absolute values, and is then rounded to its
  // dtype.
  double product_error(const at::Tensor& got, const at::Tensor& a, const at::Tensor& b) const {
    const at::Tensor want = at::mm(wide(a), wide(b));
    const at::Tensor terms = at::mm(wide(a).abs(), wide(b).abs());
    const double roundings = static_cast<double>(a.size(1) + 1) * unit_of(wide_type_);
    return worst(got, want, terms * roundings + want.abs() * 1.01 * unit_of(got.scalar_type()));
  }

  double weight_gradient_error(const at::Tensor& got, const at::Tensor& before) const {
    const at::Tensor want = wide(before) + at::mm(wide(dy_).t(), wide(x_));
    const at::Tensor terms = wide(before).abs() + at::mm(wide(dy_).t().abs(), wide(x_).abs());
    return worst(got, want, terms * static_cast<double>(size_.tokens + 2) * unit_of(wide_type_));
  }
};

TEST_P(Gemm, ForwardAndInputGradientAreWithinTheirRoundings) {
  EXPECT_LE(product_error(kernels::linear(x_, weight_), x_, weight_.t()), 1);
  EXPECT_LE(product_error(linear_backward_input(dy_, weight_), dy_, weight_), 1);
  const at::Tensor y = at::empty({size_.tokens, size_.outputs}, dtype_);
  EXPECT_TRUE(kernels::linear(x_, weight_, y).is_same(y));
  EXPECT_TRUE(same_bits(y, kernels::linear(x_, weight_)));
  const at::Tensor dx = at::empty({size_.tokens, size_.inputs}, dtype_);
  EXPECT_TRUE(linear_backward_input(dy_, weight_, dx).is_same(dx));
  EXPECT_TRUE(same_bits(dx, linear_backward_input(dy_, weight_)));
}

TEST_P(Gemm, WeightGradientIsAddedOrOverwrites) {
  const at::Tensor before = random_normal({size_.outputs, size_.inputs}, wide_type_, 4);
  at::Tensor main_grad = before.clone();
  accumulate_weight_gradient(dy_, x_, main_grad, Accumulate::kAdd);
  EXPECT_LE(weight_gradient_error(main_grad, before), 1);
  main_grad.fill_(std::numeric_limits<double>::quiet_NaN());
  accumulate_weight_gradient(dy_, x_, main_grad, Accumulate::kOverwrite);
  EXPECT_LE(weight_gradient_error(main_grad, at::zeros_like(before)), 1)
      << "the previous contents, NaN, must not be read";
}

TEST_P(Gemm, BothWaysForBfloat16AreWithinTheirRoundings) {
  const at::Tensor x = x_.to(at::kBFloat16);
  const at::Tensor weight = weight_.to(at::kBFloat16);
  const at::Tensor dy = dy_.to(at::kBFloat16);
  for (const cpu::Bf16Gemm how : {cpu::Bf16Gemm::kNative, cpu::Bf16Gemm::kFloat32}) {
    SCOPED_TRACE(how == cpu::Bf16Gemm::kNative ? "native" : "through float32");
    const at::Tensor y = at::empty({size_.tokens, size_.outputs}, at::kBFloat16);
    cpu::linear(x, weight, y, how);
    const at::Tensor want = at::mm(wide(x), wide(weight).t());
    const at::Tensor terms = at::mm(wide(x).abs(), wide(weight).t().abs());
    const double roundings = static_cast<double>(size_.inputs + 1) * kUnitFloat;
    EXPECT_LE(worst(y, want, terms * roundings + want.abs() * 1.01 * unit_of(at::kBFloat16)), 1);

    at::Tensor main_grad = at::ones({size_.outputs, size_.inputs});
    cpu::accumulate_weight_gradient(dy, x, main_grad, Accumulate::kAdd, how);
    const at::Tensor want_grad = 1 + at::mm(wide(dy).t(), wide(x));
    const at::Tensor grad_terms = 1 + at::mm(wide(dy).t().abs(), wide(x).abs());
    EXPECT_LE(worst(main_grad, want_grad, grad_terms * static_cast<double>(size_.tokens + 2) * kUnitFloat),
              1);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Gemm,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(Size{1, 1, 1}, Size{3, 17, 5}, Size{64, 48, 700},
                                                          Size{17, 530, 33})));

TEST(Bf16GemmRule, IsNativeWhereTheProcessorIsFast) {
  using cpu::Bf16Gemm;
  EXPECT_EQ(cpu::faster_bf16_gemm({.intel = true, .amx = true, .avx512_bf16 = true, .avx512_fp16 = true}),
            Bf16Gemm::kNative);
  EXPECT_EQ(cpu::faster_bf16_gemm({.intel = true, .avx512_bf16 = true}), Bf16Gemm::kNative) << "Cooper Lake";
  EXPECT_EQ(cpu::faster_bf16_gemm({.avx512_bf16 = true}), Bf16Gemm::kNative) << "Zen 4";
  EXPECT_EQ(cpu::faster_bf16_gemm({.intel = true, .avx512_bf16 = true, .avx512_fp16 = true}),
            Bf16Gemm::kFloat32)
      << "Sapphire Rapids without its AMX";
  EXPECT_EQ(cpu::faster_bf16_gemm({.intel = true}), Bf16Gemm::kFloat32);
}

TEST(GemmMisuse, NamesTheTensor) {
  const at::Tensor x = at::ones({4, 8});
  const at::Tensor weight = at::ones({6, 8});
  EXPECT_THAT(
      [&] {
        kernels::linear(x, at::ones({6, 7}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("weight must be [6, 8] Float cpu, got [6, 7] Float cpu")));
  EXPECT_THAT(
      [&] {
        kernels::linear(x, weight, at::ones({4, 5}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("out must be [4, 6]")));
  EXPECT_THAT([&] { linear_backward_input(x, weight); },
              ThrowsMessage<ShapeError>(HasSubstr("weight must be [8, 8]")));
  EXPECT_THAT(
      [&] {
        accumulate_weight_gradient(at::ones({3, 6}), x, at::ones({6, 8}), Accumulate::kAdd);
      },
      ThrowsMessage<ShapeError>(HasSubstr("x must be [3, 8] Float cpu, got [4, 8]")));
  EXPECT_THAT(
      [&] {
        accumulate_weight_gradient(at::ones({4, 6}), x, at::ones({8, 6}), Accumulate::kAdd);
      },
      ThrowsMessage<ShapeError>(HasSubstr("main_grad must be [6, 8]")));
}

}  // namespace
}  // namespace braid::kernels
