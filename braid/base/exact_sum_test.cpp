#include "braid/base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace braid {
namespace {

double sum_of(const std::vector<double>& numbers) {
  ExactSum sum;
  for (const double number : numbers) sum.add(number);
  return sum.value();
}

TEST(ExactSum, OfOneNumberIsThatNumber) {
  EXPECT_EQ(ExactSum().value(), 0.0);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    ASSERT_EQ(sum_of({number}), number);
  }
  constexpr double kMax = std::numeric_limits<double>::max();
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  for (const double number : {kMax, -kMax, kTiny, -kTiny, std::numeric_limits<double>::min()}) {
    EXPECT_EQ(sum_of({number}), number);
  }
}

TEST(ExactSum, OfTwoNumbersIsRoundedLikeTheirAddition) {
  std::mt19937_64 random(2);
  std::uniform_int_distribution<int> exponent(-60, 60);
  for (int i = 0; i < 200'000; ++i) {
    const auto mantissa = [&] {
      return static_cast<double>(static_cast<int64_t>(random() >> 11) - (1LL << 52));
    };
    const double a = std::ldexp(mantissa(), exponent(random));
    const double b = std::ldexp(mantissa(), exponent(random));
    ASSERT_EQ(sum_of({a, b}), a + b) << a << " " << b;
  }
}

TEST(ExactSum, OfSubnormalsIsExact) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const double a = std::bit_cast<double>(random() >> 13), b = -std::bit_cast<double>(random() >> 14);
    ASSERT_EQ(sum_of({a, b}), a + b);
  }
}

TEST(ExactSum, TiesGoToEven) {
  const double one = 1.0, half_ulp = std::ldexp(1.0, -53);
  EXPECT_EQ(sum_of({one, half_ulp}), one);
  EXPECT_EQ(sum_of({one, half_ulp, std::ldexp(1.0, -1074)}), std::nextafter(one, 2.0));
  EXPECT_EQ(sum_of({-one, -half_ulp, -std::ldexp(1.0, -1074)}), -std::nextafter(one, 2.0));
  const double odd = std::nextafter(one, 2.0);
  EXPECT_EQ(sum_of({odd, half_ulp}), std::nextafter(odd, 2.0));
}

TEST(ExactSum, CancelsCompletely) {
  EXPECT_EQ(sum_of({1e300, 1.0, -1e300}), 1.0);
  EXPECT_EQ(sum_of({1e300, 1e-300, -1e300}), 1e-300);
  EXPECT_EQ(sum_of({5e-324, 1e308, -1e308, -5e-324}), 0.0);
}

TEST(ExactSum, DoesNotDependOnOrderOrDivision) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-500, 500);
  std::vector<double> numbers;
  for (int i = 0; i < 10'000; ++i) numbers.push_back(std::ldexp(mantissa(random), exponent(random)));
  const double expected = sum_of(numbers);
  for (int round = 0; round < 10; ++round) {
    std::ranges::shuffle(numbers, random);
    EXPECT_EQ(sum_of(numbers), expected);
    std::vector<ExactSum> parts(1 + static_cast<size_t>(round));
    for (const double number : numbers) parts[random() % parts.size()].add(number);
    ExactSum total;
    for (const ExactSum& part : parts) total.add(ExactSum::from_words(part.words()));
    EXPECT_EQ(total.value(), expected);
  }
}

TEST(ExactSum, KeepsWhatIsNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sum_of({1.0, kInf, 2.0}), kInf);
  EXPECT_EQ(sum_of({1.0, -kInf, 2.0}), -kInf);
  EXPECT_TRUE(std::isnan(sum_of({kInf, -kInf})));
  EXPECT_TRUE(std::isnan(sum_of({std::numeric_limits<double>::quiet_NaN()})));
  ExactSum a, b;
  a.add(kInf);
  b.add(a);
  EXPECT_EQ(b.value(), kInf);
  // More than float64 holds.
  EXPECT_EQ(sum_of({1.7e308, 1.7e308}), kInf);
  EXPECT_EQ(sum_of({1.7e308, 1.7e308, -1.7e308}), 1.7e308);
}

}  // namespace
}  // namespace braid
