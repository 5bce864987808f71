// SHA-256 and HMAC, with which ranks prove to each other that they know the run's secret.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid::comm {

/// The 32 bytes of a hash.
using Digest = std::array<uint8_t, 32>;

/// The SHA-256 hash of `bytes`. Source: FIPS 180-4, section 6.2.
Digest sha256(std::string_view bytes);

/// HMAC-SHA-256 of `bytes` under `key`. Source: RFC 2104.
Digest hmac_sha256(std::string_view key, std::string_view bytes);

/// Whether `given` is exactly `expected`. The time it takes does not depend on where they differ, which would
/// let a peer find a valid code byte by byte.
bool matches(const Digest& expected, std::string_view given);

/// The bytes of a digest, to put them in a message.
std::string_view bytes_of(const Digest& digest);

}  // namespace braid::comm
