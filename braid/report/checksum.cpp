#include "braid/report/checksum.h"

#include <array>

namespace braid::report {
namespace {

using Table = std::array<uint32_t, 256>;

// The remainders of each byte; `reversed` is the polynomial with its bits in reverse order.
constexpr Table table_of(uint32_t reversed) {
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1) != 0 ? rest >> 1 ^ reversed : rest >> 1;
    table[byte] = rest;
  }
  return table;
}

constexpr Table kIeee = table_of(0xedb88320);
constexpr Table kCastagnoli = table_of(0x82f63b78);

uint32_t checksum(const Table& table, std::string_view bytes) {
  uint32_t rest = 0xffffffff;
  for (const char c : bytes) rest = rest >> 8 ^ table[(rest ^ static_cast<uint8_t>(c)) & 0xff];
  return ~rest;
}

}  // namespace

uint32_t crc32(std::string_view bytes) { return checksum(kIeee, bytes); }

uint32_t crc32c(std::string_view bytes) { return checksum(kCastagnoli, bytes); }

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t plain = crc32c(bytes);
  return (plain >> 15 | plain << 17) + 0xa282ead8;
}

}  // namespace braid::report
