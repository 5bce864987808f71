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

TEST(SquaredNorm, IsTheSumInFloat64) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const int64_t n : {0, 1, 5, 63, 16384, 16385, 100003}) {
      const at::Tensor t = random_normal({n}, dtype, 1, 100);
      const double want = wide(t).square().sum().item<double>();
      on_every_instruction_set([&](const std::string& set) {
        // Two sums of n positive terms, and the squares' own rounding.
        EXPECT_NEAR(squared_norm(t), want, want * static_cast<double>(2 * n + 2) * 0x1p-53)
            << set << " " << n;
      });
    }
  }
}

TEST(SquaredNorm, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor t = random_normal({300, 1001}, at::kFloat, 1);
  at::set_num_threads(2);
  const double two = squared_norm(t);
  at::set_num_threads(1);
  EXPECT_EQ(squared_norm(t), two);
}

TEST(SquaredNorm, RejectsUnsupportedTensors) {
  EXPECT_THAT(
      [] {
        squared_norm(at::ones({3, 4}).t());
      },
      ThrowsMessage<ShapeError>(HasSubstr("must be contiguous")));
  EXPECT_THAT([] { squared_norm(at::ones({3}, at::kLong)); },
              ThrowsMessage<ShapeError>(HasSubstr("must be float32")));
}

}  // namespace
}  // namespace braid::kernels
