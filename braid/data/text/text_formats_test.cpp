// How files are recognised: JSON under any name, compression, and what is not text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/data/text/text_source.h"

namespace braid::data {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

class TextFormats : public testing::Test {
 protected:
  // The texts of a file given by name.
  std::vector<std::string> read(const std::string& name, const std::string& content,
                                TextFormat format = TextFormat::kAuto) {
    return read_all({.inputs = {folder_.write(name, content)}, .format = format});
  }
  std::vector<std::string> read_all(TextOptions options) {
    TextSource source(std::move(options));
    std::vector<std::string> texts;
    while (auto document = source.next()) texts.push_back(std::move(document->text));
    counts_ = source.counts();
    return texts;
  }
  // Reading it, for errors.
  auto reading(const std::string& name, const std::string& content, TextFormat format = TextFormat::kAuto) {
    return [=, this] { read(name, content, format); };
  }
  ScratchDirectory folder_;
  TextCounts counts_;
};

TEST_F(TextFormats, JsonLinesAreRecognisedUnderEveryName) {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\", \"id\": [1, {}]}\n";
  for (const char* name :
       {"a.jsonl", "a.JSONL", "a.ndjson", "a.NdJson", "a.json", "a.JSON", "a.txt", "a", "a.data.gz"}) {
    EXPECT_THAT(read(name, lines), ElementsAre("one", "two")) << name;
  }
  EXPECT_THAT(read("bom.json", "\xef\xbb\xbf" + lines), ElementsAre("one", "two"));
  EXPECT_THAT(read("crlf.json", "\r\n{\"text\": \"one\"}\r\n\r\n{\"text\": \"two\"}"),
              ElementsAre("one", "two"));
  EXPECT_THAT(read("single.json", "{\"text\": \"one\"}"), ElementsAre("one"));
  EXPECT_THAT(read("separator.jsonl", "{\"text\": \"a\xe2\x80\xa8z\"}\n"), ElementsAre("a\xe2\x80\xa8z"))
      << "U+2028 ends no line";
}

TEST_F(TextFormats, JsonArraysAndObjectsOverSeveralLines) {
  EXPECT_THAT(read("a.json", "[{\"text\": \"one\"},{\"text\": \"t]w\\\"o\"}]"), ElementsAre("one", "t]w\"o"));
  EXPECT_THAT(
      read("a.json",
           "\n[\n  {\n    \"text\": \"one\"\n  },\n  {\"n\": [1, {\"x\": \"}\"}], \"text\": \"two\"}\n]\n"),
      ElementsAre("one", "two"));
  EXPECT_THAT(read("a.json", "{\n  \"text\": \"one\"\n}\n{\n  \"text\": \"two\"\n}\n"),
              ElementsAre("one", "two"));
  EXPECT_TRUE(read("a.json", " [ ] ").empty());
  const std::string large(700'000, 'x');
  EXPECT_THAT(read("a.json", "[\n{\"text\": \"" + large + "\"},\n{\"text\": \"end\"}]"),
              ElementsAre(large, "end"));
}

TEST_F(TextFormats, DamagedJsonIsNamedWithItsLine) {
  EXPECT_THAT(reading("a.json", "[\n{\"text\": \"one\"},\n{\"text\": two}\n]"),
              says<DataError>("a.json:3: not JSON"));
  EXPECT_THAT(reading("a.json", "[\n{\"text\": \"one\"}\n{\"text\": \"two\"}]"),
              says<DataError>("a.json:3: expected a comma or the end of the array"));
  EXPECT_THAT(reading("a.json", "[\n{\"text\": \"one\"},\n"),
              says<DataError>("a.json:3: the file ends within an array"));
  EXPECT_THAT(reading("a.json", "[\n{\"text\": \"one\"}"),
              says<DataError>("a.json:2: the file ends within an array"));
  EXPECT_THAT(reading("a.json", "[\n\n{\"text\": \"on"),
              says<DataError>("a.json:3: the file ends within the object"));
  EXPECT_THAT(reading("a.json", "[{\"text\": \"one\"}]\n]"),
              says<DataError>("a.json:2: there is more after the end"));
  EXPECT_THAT(reading("a.json", "[\"one\"]"), says<DataError>("a.json:1: expected a JSON object like"));
  EXPECT_THAT(reading("a.json", "just words"), says<DataError>("a.json:1: expected a JSON object like"));
  EXPECT_THAT(reading("a.json", "{\"text\": \"one\"}\nbroken\n"), says<DataError>("a.json:2: not JSON"));
  EXPECT_THAT(reading("a.json", "[{\"text\": \"a\"},\n{\"text\": null}]"),
              says<DataError>("a.json:2: the value of \"text\" must be a string, got type null"));
  EXPECT_THAT(reading("a.txt", "{\"body\": \"x\"}\n"),
              says<DataError>("a.txt:1: has no key \"text\" (its keys: body); "
                              "pass --json_key with the key of the text, or "
                              "--format text"));
}

TEST_F(TextFormats, TheFormatCanBeGiven) {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  EXPECT_THAT(read("a.jsonl", lines, TextFormat::kText), ElementsAre(lines));
  EXPECT_THAT(read("a.xyz", "[{\"text\": \"one\"}]", TextFormat::kJson), ElementsAre("one"));
  EXPECT_THAT(reading("a.xyz", "[{\"text\": \"one\"}]", TextFormat::kJsonLines),
              says<DataError>("must be a JSON object"));
  EXPECT_THAT(reading("a.xyz", "words", TextFormat::kJsonLines), says<DataError>("a.xyz:1: not JSON"));
}

TEST_F(TextFormats, TextThatBeginsLikeJsonStaysText) {
  for (const std::string text :
       {"[a link](there)\n", "{curly} words\n", "{\n", "[1] A footnote.\n", "{\"text\": 1} {\n"}) {
    EXPECT_THAT(read("a.md", text), ElementsAre(text));
  }
}

TEST_F(TextFormats, OtherJsonInADirectoryIsSkippedAndNamed) {
  folder_.write("in/a.txt", "words");
  folder_.write("in/b.json", "{\n \"name\": \"settings\"\n}\n");
  folder_.write("in/c.json", "{\"text\": \"more\"}\n");
  EXPECT_THAT(read_all({.inputs = {folder_.file("in")}}), ElementsAre("words", "more"));
  EXPECT_EQ(counts_.files, 2);
  EXPECT_EQ(skipped_text(counts_),
            "skipped: 1 JSON without text under --json_key (" + folder_.file("in/b.json") + ")");
  folder_.write("in/d.json", "{\"text\": \"fine\"}\n{\"name\": 1}\n");
  EXPECT_THAT([&] { read_all({.inputs = {folder_.file("in")}}); },
              says<DataError>("d.json:2: has no key \"text\""))
      << "a file of documents is not skipped in its middle";
  folder_.write("in/d.json", "{\"text\": \"fine\"}\n");
  folder_.write("in/e.ndjson", "{\"name\": 1}\n");
  EXPECT_THAT([&] { read_all({.inputs = {folder_.file("in")}}); },
              says<DataError>("e.ndjson:1: has no key \"text\""))
      << "its name says that it holds documents";
}

TEST_F(TextFormats, WhatHoldsTextButMustBeConvertedIsAnErrorAlsoInADirectory) {
  folder_.write("in/a.txt", "words");
  const std::vector<std::pair<std::string, std::string>> files = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
       "is a Git LFS pointer, not a text file: run git lfs pull"},
      {"PAR1\x15\0\x15"s, "is a Parquet file, not a text file: convert it to JSON lines"},
      {"ARROW1\0\0"s, "is an Arrow file, not a text file"},
      {"\xff\xfew\0"s, "is UTF-16 text, not a text file: convert it with iconv"},
      {"\xfd\x37zXZ\0\0"s, "is compressed by xz, not a text file: decompress it with unxz"},
      {"BZh91AY&SY\x01", "is compressed by bzip2"},
  };
  for (const auto& [content, error] : files) {
    folder_.write("in/b.data", content);
    EXPECT_THAT([&] { read_all({.inputs = {folder_.file("in")}}); }, says<DataError>("in/b.data " + error));
    EXPECT_THAT([&] { read_all({.inputs = {folder_.file("in/b.data")}}); },
                says<DataError>("in/b.data " + error));
    EXPECT_THAT(read_all({.inputs = {folder_.file("in")}, .excluded = {"b.data"}}), ElementsAre("words"));
  }
}

TEST_F(TextFormats, OtherBinaryFilesAreErrorsByNameAndCountedInADirectory) {
  folder_.write("in/a.txt", "words");
  folder_.write("in/b.png", "\x89PNG\r\n\x1a\n\0"s);
  folder_.write("in/c.bin", "\x80\x04\x95\0"s);
  folder_.write("in/d.txt", std::string(10'000, 'x') + "\0"s);
  folder_.write("in/e.so",
                "\x7f"
                "ELF\x02");
  EXPECT_THAT(read_all({.inputs = {folder_.file("in")}}), ElementsAre("words"));
  const std::string in = folder_.file("in/");
  EXPECT_EQ(skipped_text(counts_), "skipped: 4 not text (" + in + "b.png is an image; " + in +
                                       "c.bin is a Python pickle; " + in + "d.txt is a binary file; ...)");
  EXPECT_EQ(counts_.files, 1);
  EXPECT_THAT([&] { read_all({.inputs = {in + "b.png"}}); },
              says<DataError>("b.png is an image, not a text file"));
  EXPECT_THAT([&] { read_all({.inputs = {in + "d.txt"}}); },
              says<DataError>("d.txt is not text: it has a NUL at byte 10000"));
}

// "{\"text\": \"packed\"}\n" by the zstd program, version 1.5.4.
const std::string kPacked = std::string(
    "\050\265\057\375\004\130\231\000\000\173\042\164\145\170\164\042\072\040\042\160\141\143\153\145\144\042"
    "\175\012\303\304\244\355",
    32);

TEST_F(TextFormats, ZstdIsDetectedByContentNotByName) {
  if (!zstd_available()) {
    EXPECT_THAT(reading("a.jsonl.zst", kPacked), says<ConfigError>("a.jsonl.zst is compressed by zstd, but"));
    return;
  }
  EXPECT_THAT(read("a.jsonl.zst", kPacked), ElementsAre("packed"));
  EXPECT_THAT(read("a.json", kPacked), ElementsAre("packed"));
  EXPECT_THAT(read("two.jsonl", kPacked + kPacked), ElementsAre("packed", "packed")) << "two frames";
  const std::string large(
      "\050\265\057\375\004\130\124\000\000\020\170\170\001\000\373\377\071\300\002\002\000\020\170\002\000"
      "\020\170\002\000\020\170\003\076\011\170\132\146\306\201",
      39);
  EXPECT_THAT(read("large", large), ElementsAre(std::string(600'000, 'x'))) << "more than a buffer";
  for (size_t size = 4; size < kPacked.size(); ++size) {
    EXPECT_THAT(reading("cut.zst", kPacked.substr(0, size)), says<DataError>("cut.zst is truncated")) << size;
  }
  std::string flipped = kPacked;
  flipped[flipped.size() - 6] ^= 1;
  EXPECT_THAT(reading("flipped.zst", flipped), says<DataError>("flipped.zst is damaged"));
}

}  // namespace
}  // namespace braid::data
