#include "braid/kernels/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kEps = 1e-5;

class Norm : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, int64_t>> {
 protected:
  at::ScalarType dtype_ = std::get<0>(GetParam());
  int64_t rows_ = std::get<1>(GetParam());
  int64_t width_ = std::get<2>(GetParam());
  at::Tensor x_ = random_normal({rows_, width_}, dtype_, 1, 2);
  at::Tensor weight_ = random_normal({width_}, dtype_, 2);
  at::Tensor dy_ = random_normal({rows_, width_}, dtype_, 3);
  at::Tensor other_ = random_normal({rows_, width_}, dtype_, 4);

  at::Tensor rstd_of(const at::Tensor& x) const { return (wide(x).square().mean(1) + kEps).rsqrt(); }

  // The sum of width squares and the division are within (width + 2) u, its root within half of that and one
  // rounding; two products.
  void expect_norm_of(const at::Tensor& x, const at::Tensor& y, const at::Tensor& rstd) const {
    const double rstd_error = (static_cast<double>(width_) / 2 + 3) * unit_of(rstd.scalar_type());
    const at::Tensor want_rstd = rstd_of(x);
    EXPECT_LE(worst(rstd, want_rstd, want_rstd * rstd_error), 1);
    const at::Tensor want = wide(x) * want_rstd.unsqueeze(1) * wide(weight_);
    EXPECT_LE(
        worst(y, want, want.abs() * (rstd_error + 3 * unit_of(rstd.scalar_type()) + 1.01 * unit_of(dtype_))),
        1);
  }
};

TEST_P(Norm, ForwardIsWithinItsRoundings) {
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const RmsNormResult result = rms_norm(x_, weight_, kEps);
    EXPECT_EQ(result.y_TH.scalar_type(), dtype_);
    expect_norm_of(x_, result.y_TH, result.rstd_T);
  });
}

TEST_P(Norm, TheSumIsRoundedOnceAndThenNormed) {
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const at::Tensor want_sum = x_ + other_;
    AddRmsNormResult result = add_rms_norm(x_, other_, weight_, kEps);
    EXPECT_TRUE(same_bits(result.sum_TH, want_sum));
    expect_norm_of(want_sum, result.y_TH, result.rstd_T);

    const at::Tensor branch = other_.clone();
    const AddRmsNormResult in_place = add_rms_norm(x_, branch, weight_, kEps, branch);
    EXPECT_TRUE(in_place.sum_TH.is_same(branch));
    EXPECT_TRUE(same_bits(branch, want_sum));
    EXPECT_TRUE(same_bits(in_place.y_TH, result.y_TH));
  });
}

TEST_P(Norm, GradientOfTheInputIsWithinItsRoundings) {
  const at::Tensor rstd = rstd_of(x_).to(dtype_ == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor r = wide(rstd).unsqueeze(1);
  const at::Tensor g = wide(dy_) * wide(weight_);
  const at::Tensor x = wide(x_);
  const at::Tensor gained = g * r;
  const at::Tensor pull = x * r.pow(3);
  const at::Tensor want = gained - pull * (g * x).mean(1, true);
  // width products summed, and ten more roundings on the way to each term.
  const at::Tensor terms = gained.abs() + pull.abs() * (g * x).abs().mean(1, true);
  const double unit = unit_of(rstd.scalar_type());
  const double roundings = (static_cast<double>(width_) + 10) * unit;
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const at::Tensor alone = rms_norm_backward_input(dy_, x_, weight_, rstd);
    EXPECT_LE(worst(alone, want, terms * roundings + want.abs() * 1.01 * unit_of(dtype_)), 1);

    const at::Tensor both = want + wide(other_);
    const at::Tensor fused = rms_norm_backward_input(dy_, x_, weight_, rstd, other_);
    const at::Tensor bound = (terms + wide(other_).abs()) * roundings + both.abs() * 1.01 * unit_of(dtype_);
    EXPECT_LE(worst(fused, both, bound), 1);

    for (const at::Tensor& original : {dy_, x_, other_}) {
      const at::Tensor out = original.clone();
      const auto argument = [&](const at::Tensor& t) { return t.is_same(original) ? out : t; };
      rms_norm_backward_input(argument(dy_), argument(x_), weight_, rstd, argument(other_), out);
      EXPECT_TRUE(same_bits(out, fused)) << "written over an argument";
    }
  });
}

TEST_P(Norm, GradientOfTheWeightIsWithinItsRoundings) {
  const at::ScalarType wide_type = dtype_ == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor rstd = rstd_of(x_).to(wide_type);
  const at::Tensor terms = wide(dy_) * wide(x_) * wide(rstd).unsqueeze(1);
  const at::Tensor before = random_normal({width_}, wide_type, 5);
  // rows terms of three roundings each, summed; added to the previous contents.
  const double roundings = (static_cast<double>(rows_) + 5) * unit_of(wide_type);
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    at::Tensor main_grad = before.clone();
    rms_norm_backward_weight(dy_, x_, rstd, main_grad, Accumulate::kAdd);
    EXPECT_LE(
        worst(main_grad, wide(before) + terms.sum(0), (wide(before).abs() + terms.abs().sum(0)) * roundings),
        1);
    main_grad.fill_(std::numeric_limits<double>::quiet_NaN());
    rms_norm_backward_weight(dy_, x_, rstd, main_grad, Accumulate::kOverwrite);
    EXPECT_LE(worst(main_grad, terms.sum(0), terms.abs().sum(0) * roundings), 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Norm,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(1, 3, 70), testing::Values(1, 31, 64, 257, 1100)));

TEST(NormThreads, ResultsDoNotDependOnTheirNumber) {
  const at::Tensor x = random_normal({150, 1100}, at::kFloat, 1);
  const at::Tensor dy = random_normal({150, 1100}, at::kFloat, 2);
  const at::Tensor weight = random_normal({1100}, at::kFloat, 3);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    const RmsNormResult forward = rms_norm(x, weight, kEps);
    const at::Tensor main_grad = at::empty({1100});
    rms_norm_backward_weight(dy, x, forward.rstd_T, main_grad, Accumulate::kOverwrite);
    return std::vector<at::Tensor>{forward.y_TH, rms_norm_backward_input(dy, x, weight, forward.rstd_T),
                                   main_grad};
  };
  const std::vector<at::Tensor> one = run(1);
  const std::vector<at::Tensor> two = run(2);
  at::set_num_threads(1);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], two[i])) << i;
}

TEST(NormMisuse, NamesTheTensor) {
  const at::Tensor x = at::ones({4, 8});
  EXPECT_THAT([&] { rms_norm(x, at::ones({7}), kEps); },
              ThrowsMessage<ShapeError>(HasSubstr("weight must be [8] Float cpu, got [7] Float cpu")));
  EXPECT_THAT([&] { rms_norm(x.t(), at::ones({4}), kEps); },
              ThrowsMessage<ShapeError>(HasSubstr("x must be contiguous")));
  EXPECT_THAT([&] { rms_norm(x.to(at::kLong), at::ones({8}), kEps); },
              ThrowsMessage<ShapeError>(HasSubstr("x must be float32")));
  EXPECT_THAT([&] { rms_norm(at::Tensor(), at::ones({8}), kEps); },
              ThrowsMessage<ShapeError>(HasSubstr("x is undefined")));
  EXPECT_THAT(
      [&] {
        add_rms_norm(x, at::ones({4, 8}, at::kBFloat16), at::ones({8}), kEps);
      },
      ThrowsMessage<ShapeError>(HasSubstr("branch must be")));
  EXPECT_THAT(
      [&] { rms_norm_backward_weight(x, x, at::ones({4}), at::ones({8}, at::kBFloat16), Accumulate::kAdd); },
      ThrowsMessage<ShapeError>(HasSubstr("main_grad must be [8] Float cpu")));
}

}  // namespace
}  // namespace braid::kernels
