// Counter-based random numbers (Philox-4x32-10), and seeds derived from names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace braid {

/// Four random 32-bit words for (key, counter). The same on every machine.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter);

/// A key derived from a seed and a name (FNV-1a of the name, mixed by SplitMix64), so that a parameter's
/// values depend on its name and the seed, not on the rank that holds it.
uint64_t seed_for(uint64_t seed, std::string_view name);

/// Standard normal deviates 2 * counter and 2 * counter + 1 of the stream `key` (Box-Muller in double).
std::array<double, 2> normal_pair(uint64_t key, uint64_t counter);

}  // namespace braid
