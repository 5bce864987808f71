// SHA-256, which identifies the content of files, and HMAC, with which ranks prove to each other that they
// know the run's secret.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

/// The 32 bytes of a hash.
using Digest = std::array<uint8_t, 32>;

/// The SHA-256 hash of bytes that come in pieces. Source: FIPS 180-4, section 6.2.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  /// The hash of everything added. Nothing may be added afterwards.
  Digest finish();

 private:
  static constexpr size_t kBlockBytes = 64;

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, kBlockBytes> pending_;  // the first bytes of a block that is not whole yet
  uint64_t bytes_ = 0;
};

/// The SHA-256 hash of `bytes`.
Digest sha256(std::string_view bytes);

/// HMAC-SHA-256 of `bytes` under `key`. Source: RFC 2104.
Digest hmac_sha256(std::string_view key, std::string_view bytes);

/// Whether `given` is exactly `expected`. The time it takes does not depend on where they differ, which would
/// let a peer find a valid code byte by byte.
bool matches(const Digest& expected, std::string_view given);

/// The bytes of a digest, to put them in a message.
std::string_view bytes_of(const Digest& digest);

/// The digest as 64 hexadecimal digits, as sha256sum prints it.
std::string hex(const Digest& digest);

}  // namespace braid
