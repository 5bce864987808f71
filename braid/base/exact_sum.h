// A sum of float64 numbers without rounding errors, whose result does not depend on their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace braid {

/// Adds any float64 numbers exactly: up to 2^30 additions, of numbers or of other sums. The same numbers give
/// the same sum, bit for bit, in every order and however they are divided among several sums that are added
/// later. Source: Kulisch's accumulator; Kulisch and Miranker 1986, https://doi.org/10.1137/1028001.
class ExactSum {
 public:
  /// 32 bits of the sum in each, the lowest of them worth 2^-1074, and the sum of what is not finite.
  static constexpr size_t kWords = 68;

  void add(double number);
  void add(const ExactSum& other);

  /// The sum, rounded once to nearest, ties to even; infinite or NaN if numbers that are not finite add up to
  /// that.
  double value() const;

  /// All that the sum consists of, to be sent to other processes.
  std::span<const int64_t, kWords> words() const { return words_; }
  static ExactSum from_words(std::span<const int64_t> words);

 private:
  static constexpr size_t kLimbs = kWords - 1;

  std::array<int64_t, kWords> words_{};
};

}  // namespace braid
