// What a file holds, in a few characters, to tell whether two machines or two runs read the same content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

/// Files up to this size are read whole; of larger ones, as many bytes in blocks of kFingerprintBlockBytes.
inline constexpr int64_t kMostFingerprintBytes = int64_t{32} << 20;
inline constexpr int64_t kFingerprintBlockBytes = int64_t{64} << 10;

/// The fingerprint of a regular file's content; neither its name nor its times are part of it.
///
/// Up to kMostFingerprintBytes: "sha256:" and the first 32 digits of what sha256sum prints. Above: "sampled:"
/// and 32 digits of a SHA-256 of the size in bytes and of 512 blocks of 64 KiB, the first and the last of the
/// file among them, the others evenly spaced. A larger file of the same size that differs only between those
/// blocks has the same fingerprint: files made from other data, shuffled otherwise, cut off or of other
/// weights are told apart; a few bytes changed in place may not be.
///
/// Reads at most kMostFingerprintBytes (about 0.2 s in memory). Throws DataError with the path and the
/// system's reason if it is not a regular file or cannot be read.
std::string file_fingerprint(const std::string& path);

/// The same for text in memory, always of all of it: "sha256:" and 32 digits.
std::string text_fingerprint(std::string_view text);

}  // namespace braid
