#include "braid/data/index/numpy_random.h"

#include <bit>

#include "braid/base/error.h"

namespace braid::data {

NumpyRandom::NumpyRandom(int64_t seed) {
  require<ConfigError>(0 <= seed && seed < (int64_t{1} << 32), "seed must be in [0, 4294967296), got ", seed);
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

void NumpyRandom::refill() {
  constexpr size_t kShift = 397;
  constexpr uint32_t kTwist = 0x9908b0dfu;
  for (size_t i = 0; i < kWords; ++i) {
    const size_t following = i + 1 < kWords ? i + 1 : 0;
    const size_t shifted = i + kShift < kWords ? i + kShift : i + kShift - kWords;
    const uint32_t mixed = (state_[i] & 0x80000000u) | (state_[following] & 0x7fffffffu);
    state_[i] = state_[shifted] ^ (mixed >> 1) ^ ((mixed & 1u) * kTwist);
  }
  position_ = 0;
}

uint32_t NumpyRandom::next() {
  if (position_ == kWords) refill();
  uint32_t y = state_[position_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

uint64_t NumpyRandom::up_to(uint64_t largest) {
  if (largest == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(largest);
  uint64_t value = 0;
  if (largest <= 0xffffffffu) {
    do {
      value = next() & mask;
    } while (value > largest);
    return value;
  }
  do {
    const uint64_t high = next();
    value = (high << 32 | next()) & mask;
  } while (value > largest);
  return value;
}

}  // namespace braid::data
