// The parts of numpy's RandomState that determine Megatron's data order: MT19937 and the legacy shuffle.
// Source: Matsumoto and Nishimura 1998, "Mersenne Twister"; numpy's RandomState documentation (its stream is
// frozen).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace braid::data {

/// The generator numpy.random.RandomState(seed).
class NumpyRandom {
 public:
  /// Throws ConfigError unless 0 <= seed < 2^32, numpy's range.
  explicit NumpyRandom(int64_t seed);

  /// The next 32 random bits.
  uint32_t next();

  /// Uniform in [0, largest]: masked bits of one draw (of two 32-bit draws, the high one first, if `largest`
  /// needs more than 32 bits), redrawn until they fit. Draws nothing for 0.
  uint64_t up_to(uint64_t largest);

  /// Shuffles like numpy.random.RandomState.shuffle for a one-dimensional array of any type.
  template <typename T>
  void shuffle(std::span<T> values) {
    // The draws do not depend on the values, so partners are drawn a block ahead and prefetched: otherwise
    // nearly every access to a large array is a cache miss.
    std::array<uint64_t, 32> partners;
    size_t i = values.size();
    while (i > 1) {
      const size_t count = std::min(partners.size(), i - 1);
      for (size_t k = 0; k < count; ++k) {
        partners[k] = up_to(i - 1 - k);
        __builtin_prefetch(&values[partners[k]], 1);
      }
      for (size_t k = 0; k < count; ++k) std::swap(values[--i], values[partners[k]]);
    }
  }

 private:
  void refill();

  static constexpr size_t kWords = 624;
  std::array<uint32_t, kWords> state_{};
  size_t position_ = kWords;
};

}  // namespace braid::data
