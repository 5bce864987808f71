#include "braid/checkpoint/unfit_value.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace braid::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<UnfitValue> unfit(const at::Tensor& tensor, at::ScalarType wanted) {
  return first_unfit_value(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()),
                           tensor.scalar_type(), wanted);
}

TEST(UnfitValue, NanAndInfinityAreFoundWhereTheyAre) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor good = at::randn({10007}).mul(100).to(type);
    EXPECT_FALSE(unfit(good, type));
    for (const double value : {kInfinity, -kInfinity, std::nan(""), -std::nan("")}) {
      for (const int64_t index : {0, 1, 4095, 4096, 10006}) {
        at::Tensor bad = good.clone();
        bad[index] = value;
        const auto found = unfit(bad, type);
        ASSERT_TRUE(found) << type << " " << value << " at " << index;
        EXPECT_EQ(found->index, index);
        EXPECT_EQ(std::isnan(found->value), std::isnan(value));
      }
    }
  }
}

// Every number is judged as at::Tensor::to rounds it.
TEST(UnfitValue, OverflowIsThatOfTheConversion) {
  const std::vector<double> bounds = {
      65504,          65519.996,        65520,          65536, 1e5, 0x1.FEp127, 0x1.FEFFFEp127, 0x1.FFp127,
      0x1.FFFFFEp127, 0x1.FFFFFEFFp127, 0x1.FFFFFFp127, 1e300};
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const at::ScalarType wanted : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const double bound : bounds) {
        for (const double value : {bound, -bound}) {
          const at::Tensor stored = at::full({3}, value, at::kDouble).to(type);
          const bool fits = std::isfinite(stored.to(wanted)[0].item<double>());
          EXPECT_EQ(unfit(stored, wanted).has_value(), !fits) << value << " " << type << " to " << wanted;
        }
      }
    }
  }
}

TEST(UnfitValue, OtherNumbersAndNothingAreFine) {
  EXPECT_FALSE(unfit(at::full({4}, -1, at::kLong), at::kLong));
  EXPECT_FALSE(unfit(at::empty({0}), at::kFloat));
}

}  // namespace
}  // namespace braid::checkpoint
