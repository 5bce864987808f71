#include "braid/model/initialise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "braid/base/random.h"
#include "braid/tensor/segment.h"

namespace braid::model {
namespace {

/// The initial values of a parameter that holds `slices`.
at::Tensor values_of(std::vector<tensor::TensorSlice> slices, uint64_t seed = 3) {
  tensor::Parameter parameter = tensor::declare_parameter(std::move(slices), "fused");
  tensor::Parameter* const pointer = &parameter;
  const std::vector<tensor::LayerParameters> layers = {{.layer = "", .parameters = {pointer}}};
  tensor::allocate_segments(tensor::lay_out_segments(layers, {}, 4), at::kFloat);
  initialise(std::span(&pointer, 1), {.deviation = 0.5, .seed = seed});
  return parameter.value;
}

TEST(Initialise, ElementIIsNumberIOfTheTensorsStream) {
  const at::Tensor values = values_of({tensor::whole_tensor("w", {3, 5})}).view(-1);
  for (int64_t i = 0; i < 15; ++i) {
    const double normal =
        normal_pair(seed_for(3, "w"), static_cast<uint64_t>(i / 2))[static_cast<size_t>(i % 2)];
    EXPECT_EQ(values[i].item<float>(), static_cast<float>(normal * 0.5)) << i;
  }
}

TEST(Initialise, AnyCutInAnyDimensionGivesTheSameValues) {
  constexpr int64_t kRows = 7, kColumns = 9;
  const at::Tensor whole = values_of({tensor::whole_tensor("w", {kRows, kColumns})});
  for (int64_t a = 0; a < kRows; ++a) {
    for (int64_t b = 0; b < kColumns; ++b) {
      const at::Tensor part =
          values_of({{.name = "w", .whole = {kRows, kColumns}, .part = {{a, kRows}, {b / 2, b + 1}}}});
      EXPECT_TRUE(at::equal(part, whole.narrow(0, a, kRows - a).narrow(1, b / 2, b + 1 - b / 2)))
          << a << ", " << b;
    }
  }
}

TEST(Initialise, FusedTensorsBeginLikeSeparateOnes) {
  const at::Tensor fused = values_of({tensor::whole_tensor("q", {4, 6}), tensor::whole_tensor("k", {2, 6})});
  EXPECT_TRUE(at::equal(fused.narrow(0, 0, 4), values_of({tensor::whole_tensor("q", {4, 6})})));
  EXPECT_TRUE(at::equal(fused.narrow(0, 4, 2), values_of({tensor::whole_tensor("k", {2, 6})})));
}

TEST(Initialise, ValuesDifferByNameAndSeedAndHaveTheDeviation) {
  const at::Tensor a = values_of({tensor::whole_tensor("a", {100, 100})});
  EXPECT_FALSE(at::equal(a, values_of({tensor::whole_tensor("b", {100, 100})})));
  EXPECT_FALSE(at::equal(a, values_of({tensor::whole_tensor("a", {100, 100})}, 4)));
  // Five standard errors of the deviation and the mean of 10,000 draws.
  EXPECT_NEAR(a.std().item<double>(), 0.5, 5 * 0.5 / std::sqrt(2.0 * 10'000));
  EXPECT_NEAR(a.mean().item<double>(), 0.0, 5 * 0.5 / std::sqrt(10'000.0));
  EXPECT_EQ(values_of({tensor::whole_tensor("norm", {5})}).sum().item<double>(), 5) << "norms begin as ones";
}

}  // namespace
}  // namespace braid::model
