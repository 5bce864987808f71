// For tests of the data axes: the tests themselves, of which each program runs some models.
#pragma once

#include <gtest/gtest.h>

#include <tuple>

#include "braid/tensor/memory.h"
#include "braid/train/axes_test_support.h"

namespace braid::train::axes {

/// In bfloat16 or not, with tied embeddings or without.
class DataAxes : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  void SetUp() override { tensor::install_cpu_allocator(); }
  Case make(const config::Strategy& strategy) const {
    return {.strategy = strategy, .bf16 = std::get<0>(GetParam()), .tied = std::get<1>(GetParam())};
  }
  // Of the losses: an ulp of the weights' dtype in every weight, 2^-8 or 2^-24, moves a logit, a sum of 32
  // products of both signs, by about as much, and the mean over 100 and more tokens by less.
  double loss_bound() const { return std::get<0>(GetParam()) ? 0x1p-8 : 32 * 0x1p-24; }
  // Each product of the forward pass is summed in two halves: an ulp of the dtype in each of a dozen layers
  // moves the loss by some ulps, the gradients' norm by more, and later steps as in expect_close.
  void expect_close_after_other_sums(const Result& got, const Result& expected) const {
    const double ulp = std::get<0>(GetParam()) ? 0x1p-8 : 0x1p-24;
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_NEAR(got.losses.front(), expected.losses.front(), 4 * ulp * expected.losses.front());
    EXPECT_NEAR(got.norms.front(), expected.norms.front(), 16 * ulp * expected.norms.front());
    for (size_t i = 1; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 2 * loss_bound() * expected.losses[i])
          << "step " << i + 1;
    }
  }
  // Of the first norm: 8 additions in float32 for each element.
  static constexpr double kNormBound = 8 * 0x1p-24;
};

}  // namespace braid::train::axes
