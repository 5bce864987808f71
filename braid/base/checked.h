// Integer arithmetic that throws instead of wrapping.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "braid/base/error.h"

namespace braid {

/// a * b. Throws InternalError if it does not fit in 64 bits.
inline int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  require<InternalError>(!__builtin_mul_overflow(a, b, &product), a, " * ", b, " overflows 64 bits");
  return product;
}

/// `value` as To. Throws InternalError if To cannot hold it.
template <typename To, typename From>
To narrow(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const auto result = static_cast<To>(value);
  require<InternalError>(static_cast<From>(result) == value && ((result < To{}) == (value < From{})), value,
                         " does not fit in ", 8 * sizeof(To), " bits");
  return result;
}

}  // namespace braid
