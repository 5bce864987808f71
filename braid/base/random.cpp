#include "braid/base/random.h"

#include <cmath>
#include <numbers>

namespace braid {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter) {
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiply0 * x[0];
    const uint64_t product1 = kMultiply1 * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

uint64_t seed_for(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  uint64_t z = hash + seed * 0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::array<double, 2> normal_pair(uint64_t key, uint64_t counter) {
  const auto words = philox(key, counter);
  // 53 bits each, offset by half a step so that the logarithm's argument is never zero.
  const auto uniform = [](uint32_t high, uint32_t low) {
    const uint64_t bits = (static_cast<uint64_t>(high) << 21) ^ (low >> 11);
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  };
  const double radius = std::sqrt(-2.0 * std::log(uniform(words[0], words[1])));
  const double angle = 2.0 * std::numbers::pi * uniform(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace braid
