#include "braid/kernels/reduce.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double sum_of_squares(const at::Tensor& t) {
  ExactSum sum;
  add_squares(t, sum);
  return sum.value();
}

TEST(AddSquares, IsTheSumInFloat64) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const int64_t blocks : {0, 1, 5, 64, 391}) {
      const int64_t n = blocks * kSquaresBlock;
      const at::Tensor t = random_normal({n}, dtype, 1, 100);
      const double want = wide(t).square().sum().item<double>();
      on_every_instruction_set([&](const std::string& set) {
        // Two sums of n positive terms, and the squares' own rounding.
        EXPECT_NEAR(sum_of_squares(t), want, want * static_cast<double>(2 * n + 2) * 0x1p-53)
            << set << " " << n;
      });
    }
  }
}

TEST(AddSquares, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor t = random_normal({300, 1024}, at::kFloat, 1);
  at::set_num_threads(2);
  const double two = sum_of_squares(t);
  at::set_num_threads(1);
  EXPECT_EQ(sum_of_squares(t), two);
}

TEST(AddSquares, PartsGiveTheSumOfTheWhole) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor t = random_normal({60 * kSquaresBlock}, dtype, 2, 30);
    const double whole = sum_of_squares(t);
    for (const int64_t parts : {2, 3, 4, 5, 60}) {
      ExactSum sum;
      for (const at::Tensor& part : t.chunk(parts)) add_squares(part, sum);
      EXPECT_EQ(sum.value(), whole);
    }
  }
}

TEST(AddSquares, RejectsUnsupportedTensors) {
  EXPECT_THAT(
      [] {
        sum_of_squares(at::ones({4, 256}).t());
      },
      ThrowsMessage<ShapeError>(HasSubstr("must be contiguous")));
  EXPECT_THAT([] { sum_of_squares(at::ones({256}, at::kLong)); },
              ThrowsMessage<ShapeError>(HasSubstr("must be float32")));
  EXPECT_THAT([] { sum_of_squares(at::ones({100})); },
              ThrowsMessage<ShapeError>(HasSubstr("in blocks of 256 elements, got 100")));
}

}  // namespace
}  // namespace braid::kernels
