#include "braid/report/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace braid::report {
namespace {

// The check values of the catalogue of parametrised CRC algorithms, and RFC 3720, appendix B.4.
TEST(Checksum, PublishedValues) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926U);
  EXPECT_EQ(crc32(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

// 0xe3069283 rotated right by 15 bits is 0x2507c60d; with 0xa282ead8 it is 0xc78ab0e5.
TEST(Checksum, IsMaskedForTfRecords) { EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5U); }

}  // namespace
}  // namespace braid::report
