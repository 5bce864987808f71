// Cyclic redundancy checks of record files.
#pragma once

#include <cstdint>
#include <string_view>

namespace braid::report {

/// The CRC-32 of zlib and PNG (polynomial 0x04c11db7).
uint32_t crc32(std::string_view bytes);

/// CRC-32C (Castagnoli, polynomial 0x1edc6f41), as iSCSI uses it.
uint32_t crc32c(std::string_view bytes);

/// crc32c, rotated and shifted by a constant, as TFRecord files store it: a CRC of data that contains a CRC
/// would be weak.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace braid::report
