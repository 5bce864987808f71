#include "braid/tensor/parameter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/tensor/segment.h"

namespace braid::tensor {
namespace {

TEST(Parameter, VectorsDoNotDecayAndBeginAsOnes) {
  const Parameter norm = declare_parameter({whole_tensor("norm.weight", {8})});
  EXPECT_FALSE(norm.decays);
  EXPECT_EQ(norm.initial, InitialValues::kOnes);
  const Parameter matrix = declare_parameter({whole_tensor("w", {3, 2})});
  EXPECT_TRUE(matrix.decays);
  EXPECT_EQ(matrix.initial, InitialValues::kNormal);
  EXPECT_EQ(matrix.name, "w");
  EXPECT_FALSE(matrix.value.defined()) << "declared, not allocated";
}

TEST(Parameter, SlicesAreStacked) {
  Parameter fused = declare_parameter({whole_tensor("q", {4, 3}), whole_tensor("k", {2, 3})}, "qk");
  EXPECT_EQ(fused.sizes(), (std::vector<int64_t>{6, 3}));
  EXPECT_EQ(fused.numel(), 18);
  const std::vector<LayerParameters> layers = {{.layer = "", .parameters = {&fused}}};
  allocate_segments(lay_out_segments(layers, {}, 4), at::kFloat);
  fused.value.copy_(at::arange(18, at::kFloat).view({6, 3}));
  const std::vector<SliceValues> slices = slices_of(fused);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].slice.name, "k");
  EXPECT_TRUE(at::equal(slices[1].values, at::arange(12, 18, at::kFloat).view({2, 3})));
  EXPECT_EQ(slices[1].values.data_ptr(), fused.value[4].data_ptr());
}

TEST(Parameter, SlicesThatDoNotFitAreRejected) {
  EXPECT_THROW(declare_parameter({}, "nothing"), ShapeError);
  EXPECT_THROW(declare_parameter({whole_tensor("q", {4, 3}), whole_tensor("k", {2, 4})}, "qk"), ShapeError);
  EXPECT_THROW(declare_parameter({TensorSlice{.name = "q", .whole = {4}, .part = {{2, 5}}}}), ShapeError);
  EXPECT_THROW(slices_of(declare_parameter({whole_tensor("w", {2})})), InternalError) << "without memory";
}

TEST(Parameter, MainGradientIsFloat32UnlessTheValueIsFloat64) {
  EXPECT_EQ(main_dtype(at::kBFloat16), at::kFloat);
  EXPECT_EQ(main_dtype(at::kFloat), at::kFloat);
  EXPECT_EQ(main_dtype(at::kDouble), at::kDouble);
}

}  // namespace
}  // namespace braid::tensor
