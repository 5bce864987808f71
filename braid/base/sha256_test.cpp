#include "braid/base/sha256.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

// The examples of FIPS 180-4 and of NIST's test vectors, around every length at which padding changes.
TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Chained over all lengths up to four blocks; the result is that of Python's hashlib.
TEST(Sha256, EveryLengthUpToFourBlocks) {
  std::string all;
  for (size_t length = 0; length <= 256; ++length) all += bytes_of(sha256(std::string(length, 'x')));
  EXPECT_EQ(hex(sha256(all)), "3b363e034edd2d9a13e3f873e40580506522b8720f50f7455f010feef4a40118");
}

TEST(Sha256, PiecesOfEverySizeGiveTheHashOfTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i);
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    Sha256 hash;
    for (size_t at = 0; at < text.size(); at += piece) hash.add(std::string_view(text).substr(at, piece));
    EXPECT_EQ(hex(hash.finish()), hex(sha256(text))) << piece;
  }
}

// RFC 4231, test cases 1, 2, 6 (a key longer than a block) and 7.
TEST(Hmac, PublishedExamples) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex(hmac_sha256(
                std::string(131, '\xaa'),
                "This is a test using a larger than block-size key and a larger than block-size data. The "
                "key needs to be hashed before being used by the HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, OneChangedByteDoesNotMatch) {
  const Digest digest = hmac_sha256("key", "text");
  EXPECT_TRUE(matches(digest, bytes_of(digest)));
  for (size_t i = 0; i < digest.size(); ++i) {
    std::string changed(bytes_of(digest));
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(matches(digest, changed)) << i;
  }
  EXPECT_FALSE(matches(digest, bytes_of(digest).substr(1)));
}

}  // namespace
}  // namespace braid
