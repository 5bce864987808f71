// The hash of the tests' golden values, which were computed outside braid: FNV-1a over 64-bit little-endian
// values.
#pragma once

#include <cstdint>

namespace braid::data {

template <typename Range>
uint64_t hash_of(const Range& values) {
  uint64_t hash = 14695981039346656037ull;
  for (const auto value : values) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ ((static_cast<uint64_t>(value) >> shift) & 255u)) * 1099511628211ull;
    }
  }
  return hash;
}

}  // namespace braid::data
