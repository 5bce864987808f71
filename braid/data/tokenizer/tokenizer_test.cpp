#include "braid/data/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "braid/base/error.h"
#include "braid/base/random.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"
#include "braid/data/tokenizer/tokenizer_words.h"

namespace braid::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

TEST(ByteTokenizer, AllBytesRoundTrip) {
  const auto tokenizer = make_tokenizer("byte");
  EXPECT_EQ(tokenizer->vocabulary_size(), 257);
  EXPECT_EQ(tokenizer->eos_id(), 256);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->name(), "byte");
  EXPECT_EQ(tokenizer->encode(std::string_view("a\0\xff", 3)), (std::vector<int64_t>{97, 0, 255}));
  for (uint64_t length = 0; length < 64; ++length) {
    std::string text;
    for (uint64_t i = 0; i < length; ++i) text.push_back(static_cast<char>(philox(length, i)[0]));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(ByteTokenizer, TheEndDecodesToNothingAndInvalidIdsAreNamed) {
  const auto tokenizer = make_tokenizer("byte");
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{104, 105, 256}), "hi");
  EXPECT_THAT(
      [&] {
        tokenizer->decode(std::vector<int64_t>{104, 257});
      },
      says<DataError>("token 1 has id 257"));
  EXPECT_THAT([&] { tokenizer->decode(std::vector<int64_t>{-1}); }, says<DataError>("token 0 has id -1"));
}

TEST(MakeTokenizer, RejectsUnknownNamesAndListsTheKnown) {
  EXPECT_THAT([] { make_tokenizer("gpt2"); }, says<ConfigError>("tokenizer 'gpt2' is unknown"));
  EXPECT_THAT([] { make_tokenizer("gpt2"); }, says<ConfigError>("sentencepiece:FILE"));
  EXPECT_THAT([] { make_tokenizer(""); }, says<ConfigError>("the tokenizer is empty"));
}

TEST(MakeTokenizer, ADirectoryMustHaveAModel) {
  const ScratchDirectory folder;
  EXPECT_THAT([&] { make_tokenizer(folder.file("")); },
              says<ConfigError>("is a directory without tokenizer.model"));
  write_bytes(folder.file("tokenizer.json"), "{}");
  EXPECT_THAT([&] { make_tokenizer(folder.file("")); }, says<ConfigError>("tools/hf_tokenize.py"));
  EXPECT_THAT([&] { make_tokenizer(folder.file("tokenizer.json")); },
              says<ConfigError>("tools/hf_tokenize.py"));
}

constexpr const char* kMark = "\xe2\x96\x81";

TEST(WordCuts, APiecePreventsTheCutsItCrosses) {
  const std::string mark = kMark;
  const auto cuts = [](std::vector<std::string> pieces) { return word_cuts(pieces); };
  EXPECT_EQ(cuts({"a", mark, mark + mark, mark + "ab", "\n", "\n\n", "\t"}), (WordCuts{true, true, true}));
  EXPECT_EQ(cuts({"a" + mark}), (WordCuts{false, true, true}));
  EXPECT_EQ(cuts({mark + "a" + mark + "b"}), (WordCuts{false, true, true}));
  EXPECT_EQ(cuts({"\n" + mark}), (WordCuts{false, true, false}));
  EXPECT_EQ(cuts({mark + "\n"}), (WordCuts{true, false, true}));
  EXPECT_EQ(cuts({"}\n"}), (WordCuts{true, false, true}));
}

std::vector<std::string> words(std::string_view text, WordCuts cuts) {
  std::vector<std::string> found;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = word_end(text, begin, cuts);
    found.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return found;
}

TEST(WordCuts, WordsConcatenateToTheText) {
  const std::string_view text = "an  ox\n\n eats\t it \n";
  EXPECT_EQ(words(text, {true, true, true}),
            (std::vector<std::string>{"an", "  ox", "\n\n", " eats\t", " it", " ", "\n"}));
  EXPECT_EQ(words(text, {true, false, false}),
            (std::vector<std::string>{"an", "  ox\n\n", " eats\t", " it", " \n"}));
  EXPECT_EQ(words(text, {false, false, true}), (std::vector<std::string>{"an  ox\n\n", " eats\t it \n"}));
  EXPECT_EQ(words(text, {}), (std::vector<std::string>{std::string(text)}));
}

TEST(ReadNormalisation, ReadsTheFieldsAndKeepsTheDefaults) {
  EXPECT_EQ(read_normalisation(""), Normalisation{});
  const auto model = [](const std::string& spec) {
    return std::string("\x0a\x02zz\x1a") + static_cast<char>(spec.size()) + spec;
  };
  EXPECT_EQ(read_normalisation(model(std::string("\x18\0\x20\0", 4))),
            (Normalisation{.dummy_prefix = false, .removes_spaces = false}));
  EXPECT_EQ(read_normalisation(model("\x12\x01x")), (Normalisation{.maps_characters = true}));
  EXPECT_EQ(read_normalisation(model(std::string("\x28\0", 2))), (Normalisation{.escapes_spaces = false}));
}

TEST(ReadNormalisation, DamagedModelsReturnNothing) {
  EXPECT_EQ(read_normalisation("\x1a\x05zz"), std::nullopt) << "longer than the file";
  EXPECT_EQ(read_normalisation("\x0b"), std::nullopt) << "no such wire type";
  EXPECT_EQ(read_normalisation("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::nullopt)
      << "number without end";
  EXPECT_EQ(read_normalisation("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), std::nullopt)
      << "length near 2^64";
}

TEST(ByteTokenizer, EveryIdButTheEndIsAByteOfText) {
  const auto tokenizer = make_tokenizer("byte");
  const std::vector<int32_t> bytes = tokenizer->token_bytes();
  ASSERT_EQ(bytes.size(), 257U);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), 256);
  EXPECT_EQ(bytes.back(), 0);
}

}  // namespace
}  // namespace braid::data
