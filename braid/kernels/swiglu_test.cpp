#include "braid/kernels/swiglu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Swiglu : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, int64_t>> {
 protected:
  at::ScalarType dtype_ = std::get<0>(GetParam());
  int64_t rows_ = std::get<1>(GetParam());
  int64_t half_ = std::get<2>(GetParam());
  double unit_ = dtype_ == at::kDouble ? unit_of(at::kDouble) : kUnitFloat;
  at::Tensor gate_up_ = random_normal({rows_, 2 * half_}, dtype_, 1, 4);
  at::Tensor dy_ = random_normal({rows_, half_}, dtype_, 2);
  at::Tensor gate_ = wide(gate_up_).narrow(1, 0, half_);
  at::Tensor up_ = wide(gate_up_).narrow(1, half_, half_);
  at::Tensor s_ = at::sigmoid(gate_);
};

// Exp is within one ulp (2 u); with 1 + e, the division and two products the result is within 6 u.
TEST_P(Swiglu, ForwardIsWithinItsRoundings) {
  const at::Tensor want = gate_ * s_ * up_;
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const at::Tensor y = swiglu(gate_up_);
    ASSERT_EQ(y.scalar_type(), dtype_);
    EXPECT_LE(worst(y, want, want.abs() * (6 * unit_ + 1.01 * unit_of(dtype_))), 1);
  });
}

TEST_P(Swiglu, BackwardIsWithinItsRoundings) {
  const at::Tensor dy = wide(dy_);
  const at::Tensor silu = gate_ * s_;
  const at::Tensor d_up = dy * silu;
  const at::Tensor d_gate = dy * up_ * (s_ + silu * (1 - s_));
  // s is within 4 u, silu within 5 u, 1 - s within 4 u + u absolutely: 10 u of |silu|, and two products after
  // the sum.
  const at::Tensor gate_terms = dy.abs() * up_.abs() * (s_ + silu.abs());
  const double stored = 1.01 * unit_of(dtype_);
  const at::Tensor want = at::cat({d_gate, d_up}, 1);
  const at::Tensor bound =
      at::cat({gate_terms * 13 * unit_ + d_gate.abs() * stored, d_up.abs() * (6 * unit_ + stored)}, 1);
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const SwigluGradient gradient = swiglu_backward(dy_, gate_up_);
    EXPECT_LE(worst(gradient.d_gate_up_TJ, want, bound), 1);
    EXPECT_TRUE(same_bits(gradient.activation_TI, swiglu(gate_up_)));
    const at::Tensor in_place = gate_up_.clone();
    EXPECT_TRUE(same_bits(swiglu_backward_(dy_, in_place), gradient.activation_TI));
    EXPECT_TRUE(same_bits(in_place, gradient.d_gate_up_TJ));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Swiglu,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(1, 3, 17), testing::Values(1, 33, 64, 250)));

TEST(SwigluExtremes, HugeGatesSaturateAndNansStay) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    // Columns: gate very negative, just past the end of exp's range, very positive, NaN gate, NaN up.
    const at::Tensor gate_up = at::tensor({-1e30, -95.0, 1e4, nan, 1.0, 1.0, 1.0, 1.0, 1.0, nan}, at::kDouble)
                                   .to(dtype)
                                   .view({1, 10});
    on_every_instruction_set([&](const std::string& set) {
      SCOPED_TRACE(set);
      const at::Tensor y = wide(swiglu(gate_up))[0];
      EXPECT_EQ(y[0].item<double>(), 0.0);
      EXPECT_NEAR(y[1].item<double>(), 0.0, 1e-36);
      EXPECT_EQ(y[2].item<double>(), wide(gate_up)[0][2].item<double>());
      EXPECT_TRUE(std::isnan(y[3].item<double>()));
      EXPECT_TRUE(std::isnan(y[4].item<double>()));
      const at::Tensor d = wide(swiglu_backward(at::ones({1, 5}, dtype), gate_up).d_gate_up_TJ)[0];
      EXPECT_EQ(d[0].item<double>(), 0.0);
      EXPECT_EQ(d[2].item<double>(), 1.0);
      EXPECT_TRUE(std::isnan(d[3].item<double>()));
    });
  }
}

TEST(SwigluThreads, ResultsDoNotDependOnTheirNumber) {
  const at::Tensor gate_up = random_normal({100, 2000}, at::kBFloat16, 1);
  at::set_num_threads(1);
  const at::Tensor one = swiglu(gate_up);
  at::set_num_threads(2);
  const at::Tensor two = swiglu(gate_up);
  at::set_num_threads(1);
  EXPECT_TRUE(same_bits(one, two));
}

TEST(SwigluMisuse, NamesTheTensor) {
  EXPECT_THAT(
      [] {
        swiglu(at::ones({2, 5}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("gate_up must have an even number of columns, got [2, 5]")));
  EXPECT_THAT(
      [] {
        swiglu_backward(at::ones({2, 2}), at::ones({2, 6}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("dy must be [2, 3] Float cpu, got [2, 2] Float cpu")));
}

}  // namespace
}  // namespace braid::kernels
