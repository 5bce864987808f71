#include "braid/base/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "braid/base/error.h"

namespace braid {
namespace {

constexpr int kLimbBits = 32;
constexpr int64_t kLimbMask = (int64_t{1} << kLimbBits) - 1;
constexpr int kLowestExponent = -1074;  // of the smallest number that float64 holds
constexpr int kMantissaBits = 52;

}  // namespace

void ExactSum::add(double number) {
  if (!std::isfinite(number)) {
    int64_t& rest = words_.back();
    rest = std::bit_cast<int64_t>(std::bit_cast<double>(rest) + number);
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(number);
  const auto exponent = static_cast<int>((bits >> kMantissaBits) & 0x7ff);
  uint64_t mantissa = bits & ((uint64_t{1} << kMantissaBits) - 1);
  if (exponent > 0) mantissa |= uint64_t{1} << kMantissaBits;
  const int shift = std::max(exponent - 1, 0);  // in bits, from the lowest of all
  const int64_t sign = number < 0 ? -1 : 1;
  auto limb = static_cast<size_t>(shift / kLimbBits);
  // The mantissa's 53 bits, moved by up to 31, fall into three limbs.
  const int within = shift % kLimbBits;
  const uint64_t low = mantissa << within;
  const uint64_t high = within == 0 ? 0 : mantissa >> (64 - within);
  words_[limb] += sign * static_cast<int64_t>(low & static_cast<uint64_t>(kLimbMask));
  words_[limb + 1] += sign * static_cast<int64_t>(low >> kLimbBits);
  words_[limb + 2] += sign * static_cast<int64_t>(high);
}

void ExactSum::add(const ExactSum& other) {
  for (size_t i = 0; i < kLimbs; ++i) words_[i] += other.words_[i];
  add(std::bit_cast<double>(other.words_.back()));
}

double ExactSum::value() const {
  const auto rest = std::bit_cast<double>(words_.back());
  if (rest != 0 || std::isnan(rest)) return rest;
  std::array<int64_t, kLimbs> limbs{};
  const auto carried = [&](int64_t sign) {
    int64_t carry = 0;
    for (size_t i = 0; i < kLimbs; ++i) {
      const int64_t sum = sign * words_[i] + carry;
      const bool is_last = i + 1 == kLimbs;
      limbs[i] = is_last ? sum : sum & kLimbMask;
      carry = is_last ? 0 : sum >> kLimbBits;
    }
    return limbs.back() >= 0;
  };
  const double sign = carried(1) ? 1.0 : -1.0;
  if (sign < 0) carried(-1);

  size_t top = kLimbs;
  while (top > 0 && limbs[top - 1] == 0) --top;
  if (top == 0) return 0.0;
  // The highest 64 bits; whatever lies below them only tells which way a tie is rounded.
  const auto limb = [&](size_t below) {
    return top > below ? static_cast<uint64_t>(limbs[top - 1 - below]) : 0;
  };
  const int leading = std::countl_zero(limb(0)) - kLimbBits;
  uint64_t mantissa = (limb(0) << kLimbBits | limb(1)) << leading;
  if (leading > 0) mantissa |= limb(2) >> (kLimbBits - leading);
  bool is_inexact = leading < kLimbBits && (limb(2) << (kLimbBits + leading)) != 0;
  for (size_t below = 3; below < top; ++below) is_inexact |= limb(below) != 0;
  mantissa |= is_inexact ? 1 : 0;
  const int exponent = kLowestExponent + kLimbBits * (static_cast<int>(top) - 2) - leading;
  return sign * std::ldexp(static_cast<double>(mantissa), exponent);
}

ExactSum ExactSum::from_words(std::span<const int64_t> words) {
  require<InternalError>(words.size() == kWords, "an exact sum has ", kWords, " words, got ", words.size());
  ExactSum sum;
  std::ranges::copy(words, sum.words_.begin());
  return sum;
}

}  // namespace braid
