#include "braid/base/fingerprint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid {
namespace {

void change_byte(const std::string& path, int64_t offset, char value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file.put(value);
}

// The digits of sha256sum for these contents.
TEST(Fingerprint, OfASmallFileBeginsAsSha256sum) {
  const ScratchDirectory scratch;
  EXPECT_EQ(file_fingerprint(scratch.write("empty", "")), "sha256:e3b0c44298fc1c149afbf4c8996fb924");
  EXPECT_EQ(file_fingerprint(scratch.write("abc", "abc")), "sha256:ba7816bf8f01cfea414140de5dae2223");
  EXPECT_EQ(text_fingerprint("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223");
}

TEST(Fingerprint, SeesEveryByteUpToTheLimit) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("file", "");
  std::filesystem::resize_file(path, kMostFingerprintBytes);
  const std::string before = file_fingerprint(path);
  EXPECT_EQ(before.substr(0, 7), "sha256:");
  change_byte(path, kMostFingerprintBytes / 2 + 12345, 'x');
  EXPECT_NE(file_fingerprint(path), before);
}

TEST(Fingerprint, OfALargeFileSeesItsSizeItsEndsAndItsBlocks) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("file", "");
  const int64_t size = int64_t{1} << 33;  // sparse: it takes no room
  std::filesystem::resize_file(path, static_cast<uint64_t>(size));
  const std::string before = file_fingerprint(path);
  EXPECT_EQ(before.substr(0, 8), "sampled:");
  std::filesystem::resize_file(path, static_cast<uint64_t>(size + 1));
  EXPECT_NE(file_fingerprint(path), before);
  std::filesystem::resize_file(path, static_cast<uint64_t>(size));
  EXPECT_EQ(file_fingerprint(path), before);
  const int64_t last_block = size - kFingerprintBlockBytes;
  for (const int64_t offset : {int64_t{0}, size - 1, last_block, last_block / 511 * 7 + 100}) {
    change_byte(path, offset, 'x');
    EXPECT_NE(file_fingerprint(path), before) << offset;
    change_byte(path, offset, '\0');
  }
  change_byte(path, 3 * kFingerprintBlockBytes, 'x');  // between two blocks: documented as unseen
  EXPECT_EQ(file_fingerprint(path), before);
}

TEST(Fingerprint, RejectsWhatIsNoReadableFile) {
  const ScratchDirectory scratch;
  EXPECT_THROW(file_fingerprint(scratch.file("missing")), DataError);
  EXPECT_THROW(file_fingerprint(scratch.path().string()), DataError);
  ASSERT_EQ(::mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  EXPECT_THROW(file_fingerprint(scratch.file("pipe")), DataError);
}

}  // namespace
}  // namespace braid
