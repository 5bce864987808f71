#include "braid/data/text/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "braid/base/error.h"
#include "braid/base/random.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"
#include "braid/data/text/text_source_utf8.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

const std::string kReplacement = "\xef\xbf\xbd";

std::string repaired(std::string text) {
  replace_invalid_utf8(text);
  return text;
}

TEST(ReplaceInvalidUtf8, ReplacesMaximalParts) {
  const std::string r = kReplacement;
  EXPECT_EQ(repaired("plain ascii, é 世 🙂"), "plain ascii, é 世 🙂");
  EXPECT_EQ(repaired("a\xff\xfe!"), "a" + r + r + "!");
  EXPECT_EQ(repaired("\xe4\xb8"), r) << "truncated";
  EXPECT_EQ(repaired("\xe4\xb8!"), r + "!");
  EXPECT_EQ(repaired("\xc0\xaf"), r + r) << "overlong";
  EXPECT_EQ(repaired("\xe0\x80\x80"), r + r + r) << "overlong";
  EXPECT_EQ(repaired("\xed\xa0\x80"), r + r + r) << "surrogate";
  EXPECT_EQ(repaired("\xf4\x90\x80\x80"), r + r + r + r) << "beyond U+10FFFF";
  // The example in the Unicode Standard, table 3-8.
  EXPECT_EQ(repaired("a\xf1\x80\x80\xe1\x80\xc2"
                     "b\x80"
                     "c\x80\xbf"
                     "d"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(ReplaceInvalidUtf8, AnyBytesBecomeValidAndValidTextIsUnchanged) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::string bytes;
    for (uint64_t i = 0; i < philox(seed, 1000)[0] % 80; ++i) {
      // Mostly bytes of long characters, with occasional runs of ASCII for the fast path.
      const auto random = philox(seed, i);
      random[1] % 3 == 0 ? bytes.append(random[0] % 9, 'x') : bytes.append(1, static_cast<char>(random[0]));
    }
    std::string text = bytes;
    const int64_t replaced = replace_invalid_utf8(text);
    ASSERT_EQ(valid_utf8_prefix(text), text.size()) << seed;
    ASSERT_EQ(replaced == 0, text == bytes) << seed;
    ASSERT_EQ(replace_invalid_utf8(text), 0) << seed;
  }
}

TEST(Utf8Prefix, NeverSplitsACharacter) {
  EXPECT_EQ(utf8_prefix("aé世", 100), "aé世");
  EXPECT_EQ(utf8_prefix("aé世", 5), "aé");
  EXPECT_EQ(utf8_prefix("aé世", 3), "aé");
  EXPECT_EQ(utf8_prefix("aé世", 2), "a");
  EXPECT_EQ(utf8_prefix("aé世", 0), "");
}

class TextSourceTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(folder_.file(name)).parent_path());
    write_bytes(folder_.file(name), bytes);
  }
  // The texts of all documents; sets origins_ to their origins relative to the directory.
  std::vector<std::string> read(TextSource& source) {
    std::vector<std::string> texts;
    origins_.clear();
    while (const auto document = source.next()) {
      texts.push_back(document->text);
      origins_.push_back(document->origin.substr(folder_.file("").size()));
    }
    return texts;
  }
  std::vector<std::string> read(TextOptions options) {
    TextSource source(std::move(options));
    return read(source);
  }
  ScratchDirectory folder_;
  std::vector<std::string> origins_;
};

TEST_F(TextSourceTest, WalksADirectoryInByteOrderAndCountsSkippedFiles) {
  write("in/b.txt", "second\n");
  write("in/a/z.rst", "first\n");
  write("in/a.txt", "between");  // '.' sorts before '/'
  write("in/.git/config", "hidden");
  write("in/.hidden", "hidden");
  write("in/skip/me.txt", "excluded");
  write("in/picture", std::string("GIF\0 data", 9));
  write("in/empty.txt", "");
  write("elsewhere/far.txt", "not to be followed");
  fs::create_directory_symlink(folder_.file("elsewhere"), folder_.file("in/loop"));
  fs::create_symlink(folder_.file("in/b.txt"), folder_.file("in/c.txt"));
  fs::create_symlink(folder_.file("nowhere"), folder_.file("in/dangling"));
  ASSERT_EQ(mkfifo(folder_.file("in/fifo").c_str(), 0600), 0);
  TextSource source({.inputs = {folder_.file("in")}, .excluded = {"skip"}});
  EXPECT_THAT(read(source), ElementsAre("between", "first\n", "second\n", "second\n", ""));
  EXPECT_THAT(origins_, ElementsAre("in/a.txt", "in/a/z.rst", "in/b.txt", "in/c.txt", "in/empty.txt"));
  EXPECT_EQ(source.counts(),
            (TextCounts{.files = 5,
                        .hidden = 2,
                        .excluded = 1,
                        .binary = 1,
                        .special = 3,
                        .binary_names = {folder_.file("in/picture") + " is a binary file"}}));
  EXPECT_EQ(source.done_bytes(), source.total_bytes());
  EXPECT_EQ(source.total_bytes(), 7 + 6 + 7 + 7 + 9);
  EXPECT_EQ(skipped_text(source.counts()),
            "skipped: 2 hidden, 1 excluded by name, 1 not text (" + folder_.file("in/picture") +
                " is a binary file), 3 special (links to directories, devices)");
}

TEST_F(TextSourceTest, ExtensionsFilterFilesInDirectoriesOnly) {
  write("in/a.rst", "a");
  write("in/b.txt", "b");
  write("in/c.html", "c");
  write("in/d", "d");
  TextSource source({.inputs = {folder_.file("in"), folder_.file("in/d")}, .extensions = {"rst", ".txt"}});
  EXPECT_THAT(read(source), ElementsAre("a", "b", "d"));
  EXPECT_EQ(source.counts().other_extension, 2);
}

TEST_F(TextSourceTest, EachJsonLineIsADocument) {
  write("a.jsonl",
        "{\"text\": \"one\\nline\", \"n\": 1}\n\n  {\"text\":\"\\u00e9\\u0000\"}  \r\n{\"text\": \"\"}");
  EXPECT_THAT(read({.inputs = {folder_.file("a.jsonl")}}),
              ElementsAre("one\nline", std::string("é\0", 3), ""));
  EXPECT_THAT(origins_, ElementsAre("a.jsonl:1", "a.jsonl:3", "a.jsonl:4"));
  write("b.jsonl", "{\"body\": \"x\"}\n");
  EXPECT_THAT(read({.inputs = {folder_.file("b.jsonl")}, .json_key = "body"}), ElementsAre("x"));
}

TEST_F(TextSourceTest, ADamagedLineIsNamed) {
  const auto reading = [&](const std::string& bytes) {
    write("x.jsonl", bytes);
    return [this] { read({.inputs = {folder_.file("x.jsonl")}}); };
  };
  EXPECT_THAT(reading("{\"text\": \"fine\"}\n{\"text\": \"cut sh"),
              says<DataError>("x.jsonl:2: not JSON, at byte 17"));
  EXPECT_THAT(reading("\n[1]\n"),
              says<DataError>("x.jsonl:2: a document must be a JSON object like {\"text\": \"...\"}"));
  EXPECT_THAT(reading("{\"body\": 1, \"id\": 2}"),
              says<DataError>("x.jsonl:1: has no key \"text\" (its keys: body, id); pass --json_key"));
  EXPECT_THAT(reading("{\"text\": 7}"),
              says<DataError>("x.jsonl:1: the value of \"text\" must be a string, got type number"));
  EXPECT_THAT(reading("{\"text\": \"\xff\"}"), says<DataError>("x.jsonl:1: not JSON"));
}

TEST_F(TextSourceTest, LinesLongerThanTheBufferAreReadCompletely) {
  const std::string first(700'000, 'a'), second(300'000, 'b');
  write("long.jsonl", "{\"text\":\"" + first + "\"}\n{\"text\":\"" + second + "\"}\n{\"text\":\"c\"}");
  EXPECT_THAT(read({.inputs = {folder_.file("long.jsonl")}}), ElementsAre(first, second, "c"));
}

TEST_F(TextSourceTest, TextIsMadeValidWithoutByteOrderMark) {
  write("a.txt", "\xef\xbb\xbfhello\xff \xef\xbb\xbf");
  TextSource source({.inputs = {folder_.file("a.txt")}});
  EXPECT_THAT(read(source), ElementsAre("hello" + kReplacement + " \xef\xbb\xbf"));
  EXPECT_EQ(source.counts().invalid_utf8, 1);
}

TEST_F(TextSourceTest, RejectsUnreadableInput) {
  EXPECT_THAT([&] { read({}); }, says<ConfigError>("no input"));
  EXPECT_THAT([&] { read({.inputs = {folder_.file("none")}}); },
              says<ConfigError>("none: no such file or directory"));
  fs::create_directory(folder_.file("empty"));
  EXPECT_THAT([&] { read({.inputs = {folder_.file("empty")}}); }, says<ConfigError>("no text file in "));
  write("dir/.only", "hidden");
  EXPECT_THAT([&] { read({.inputs = {folder_.file("dir")}}); }, says<ConfigError>("skipped: 1 hidden"));
  write("binary", std::string("ab\0", 3));
  EXPECT_THAT([&] { read({.inputs = {folder_.file("binary")}}); },
              says<DataError>("binary is not text: it has a NUL at byte 2"));
  EXPECT_THAT([&] { read({.inputs = {"/dev/null"}}); }, says<ConfigError>("neither a file nor a directory"));
}

// `bytes` as a gzip file with one stored (uncompressed) block. Source: RFC 1951 and 1952.
std::string gzipped(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  const auto little_endian = [](uint32_t value, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  };
  const auto size = static_cast<uint32_t>(bytes.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11) + little_endian(size, 2) +
         little_endian(~size, 2) + bytes + little_endian(~crc, 4) + little_endian(size, 4);
}

TEST_F(TextSourceTest, GzipIsDetectedByContentNotByName) {
  write("in/a.rst.gz", gzipped("packed text"));
  write("in/b.jsonl.gz", gzipped("{\"text\": \"one\"}\n{\"text\": \"two\"}\n"));
  write("in/c.rst", gzipped("wrong name") + gzipped(", two members"));
  write("in/d.gz", gzipped(std::string("bin\0", 4)));
  TextSource source({.inputs = {folder_.file("in")}, .extensions = {"rst", "jsonl", ""}});
  if (!gzip_available()) {
    EXPECT_THAT([&] { read(source); }, says<ConfigError>("BRAID_WITH_ZLIB"));
    return;
  }
  EXPECT_THAT(read(source), ElementsAre("packed text", "one", "two", "wrong name, two members"));
  EXPECT_EQ(source.counts().files, 3);
  EXPECT_EQ(source.done_bytes(), source.total_bytes());
}

TEST_F(TextSourceTest, DamagedGzipIsNamed) {
  if (!gzip_available()) {
    EXPECT_THAT([&] { open_gzip("x.gz"); },
                says<ConfigError>("x.gz is compressed by gzip, but this build does not include zlib"));
    return;
  }
  const std::string whole = gzipped("some text to be cut");
  for (size_t size = 3; size < whole.size(); ++size) {
    write("cut.gz", whole.substr(0, size));
    EXPECT_THAT([&] { read({.inputs = {folder_.file("cut.gz")}}); }, says<DataError>("cut.gz is truncated"))
        << size;
  }
  std::string flipped = whole;
  flipped[20] ^= 1;
  write("flipped.gz", flipped);
  EXPECT_THAT([&] { read({.inputs = {folder_.file("flipped.gz")}}); },
              says<DataError>("flipped.gz is damaged"));
}

}  // namespace
}  // namespace braid::data
