#include "braid/tensor/parameter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace braid::tensor {
namespace {

TEST(Parameter, MainGradientIsFloat32UnlessTheValueIsFloat64) {
  EXPECT_EQ(make_parameter("w", {3, 2}, at::kBFloat16).main_grad.scalar_type(), at::kFloat);
  EXPECT_EQ(make_parameter("w", {3, 2}, at::kFloat).main_grad.scalar_type(), at::kFloat);
  EXPECT_EQ(make_parameter("w", {3, 2}, at::kDouble).main_grad.scalar_type(), at::kDouble);
}

TEST(Parameter, VectorsDoNotDecayAndRowsCoverTheWhole) {
  const Parameter norm = make_parameter("norm.weight", {8}, at::kFloat);
  EXPECT_FALSE(norm.decays);
  const Parameter matrix = make_parameter("w", {3, 2}, at::kFloat);
  EXPECT_TRUE(matrix.decays);
  ASSERT_EQ(matrix.rows.size(), 1u);
  EXPECT_EQ(matrix.rows[0].name, "w");
  EXPECT_EQ(matrix.rows[0].end, 3);
}

}  // namespace
}  // namespace braid::tensor
