#include "braid/checkpoint/unfit_value.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace braid::checkpoint {
namespace {

// The smallest number that rounds to infinity in `wanted`: half a step above its largest one.
double overflow_of(c10::ScalarType wanted) {
  switch (wanted) {
    case c10::kHalf:
      return 65520;
    case c10::kBFloat16:
      return 0x1.FFp127;
    case c10::kFloat:
      return 0x1.FFFFFFp127;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

// The smallest positive Number that is at least `limit`: its bits. The bits of positive floating-point
// numbers are ordered as the numbers are, infinity and NaN behind all others.
template <typename Number, typename Bits>
Bits bits_of_least(double limit) {
  Bits low = 0;
  Bits high = std::bit_cast<Bits>(std::numeric_limits<Number>::infinity());
  while (low < high) {
    const auto middle = static_cast<Bits>(low + (high - low) / 2);
    if (static_cast<double>(std::bit_cast<Number>(middle)) < limit)
      low = static_cast<Bits>(middle + 1);
    else
      high = middle;
  }
  return high;
}

// Bits is signed: without the sign bit all are positive, and compilers compare signed integers in vectors.
template <typename Number, typename Bits>
std::optional<UnfitValue> scan(std::span<const std::byte> bytes, double limit) {
  constexpr size_t kBlock = 4096;
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  const Bits least = bits_of_least<Number, Bits>(limit);
  const size_t count = bytes.size() / sizeof(Bits);
  Bits block[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    std::memcpy(block, bytes.data() + begin * sizeof(Bits), size * sizeof(Bits));
    Bits largest = 0;
    for (size_t i = 0; i < size; ++i) largest = std::max(largest, static_cast<Bits>(block[i] & kMagnitude));
    if (largest < least) continue;
    for (size_t i = 0; i < size; ++i) {
      if (static_cast<Bits>(block[i] & kMagnitude) < least) continue;
      return UnfitValue{.index = static_cast<int64_t>(begin + i),
                        .value = static_cast<double>(std::bit_cast<Number>(block[i]))};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<UnfitValue> first_unfit_value(std::span<const std::byte> bytes, c10::ScalarType type,
                                            c10::ScalarType wanted) {
  const double limit = overflow_of(wanted);
  switch (type) {
    case c10::kDouble:
      return scan<double, int64_t>(bytes, limit);
    case c10::kFloat:
      return scan<float, int32_t>(bytes, limit);
    case c10::kHalf:
      return scan<c10::Half, int16_t>(bytes, limit);
    case c10::kBFloat16:
      return scan<c10::BFloat16, int16_t>(bytes, limit);
    default:
      return std::nullopt;
  }
}

}  // namespace braid::checkpoint
