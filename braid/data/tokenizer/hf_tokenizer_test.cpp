#include "braid/data/tokenizer/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/tokenizer/tokenizer.h"

namespace braid::data {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// A serialised ModelProto, field by field.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string field(uint64_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

std::string field(uint64_t number, uint64_t value) { return varint(number << 3) + varint(value); }

std::string piece(std::string_view text, float score = 0, uint64_t type = 1) {
  std::string number = varint(2 << 3 | 5);
  for (int shift = 0; shift < 32; shift += 8)
    number += static_cast<char>(std::bit_cast<uint32_t>(score) >> shift & 0xff);
  return field(1, field(1, text) + number + field(3, type));
}

struct Kind {
  bool bpe = true;
  bool dummy_prefix = false;
  bool user_defined = true;
  bool maps_characters = false;
};

std::string model(const Kind& kind = {}) {
  std::string bytes = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
  if (kind.user_defined) bytes += piece("\n", 0, 4);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    bytes += piece(std::string("<0x") + kDigits[static_cast<size_t>(byte / 16)] +
                       kDigits[static_cast<size_t>(byte % 16)] + ">",
                   0, 6);
  }
  bytes += piece("ab", -0) +
           piece(
               "\xc3\xbc"
               "b",
               -1) +
           piece("abb", -2);  // merges, the second beginning with ü
  bytes += piece("a", -3) + piece("b", -4) + piece("\xc3\xbc", -5) + piece("\xe2\x96\x81", -6);
  bytes += field(2, field(3, kind.bpe ? 2 : 1));
  return bytes + field(3, field(2, kind.maps_characters ? "x" : "") + field(3, kind.dummy_prefix ? 1 : 0) +
                              field(4, uint64_t{0}) + field(5, uint64_t{1}));
}

json parsed(const std::vector<HfTokenizerFile>& files, std::string_view name) {
  for (const HfTokenizerFile& file : files) {
    if (file.name == name) return json::parse(file.text);
  }
  return nullptr;
}

TEST(HfTokenizer, ASentencePieceModelKeepsItsIdsAndItsOrderOfMerges) {
  const auto files =
      sentencepiece_tokenizer_files(model(), {.bos_id = 1, .eos_id = 2, .add_bos = true, .max_length = 512});
  const json tokenizer = parsed(files, "tokenizer.json");
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 4 + 256 + 7);
  EXPECT_EQ(tokenizer["model"]["vocab"]["<0x00>"], 4);
  EXPECT_EQ(tokenizer["model"]["vocab"]["abb"], 262);
  EXPECT_EQ(tokenizer["model"]["merges"], json::parse(R"([["a","b"],["ü","b"],["ab","b"]])"));
  EXPECT_EQ(tokenizer["model"]["byte_fallback"], true);
  EXPECT_EQ(tokenizer["added_tokens"].size(), 4);
  EXPECT_EQ(tokenizer["added_tokens"][3]["content"], "\n");
  EXPECT_EQ(tokenizer["added_tokens"][3]["special"], false);
  EXPECT_EQ(tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"], json::parse("[1]"));
  const json config = parsed(files, "tokenizer_config.json");
  EXPECT_EQ(config["add_bos_token"], true);
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_EQ(config["model_max_length"], 512);
  EXPECT_EQ(parsed(sentencepiece_tokenizer_files(model(), {.bos_id = 1}), "tokenizer.json")["post_processor"],
            nullptr);
}

TEST(HfTokenizer, ADummyPrefixIsPartOfTheNormalisation) {
  const auto files = sentencepiece_tokenizer_files(model({.dummy_prefix = true, .user_defined = false}), {});
  EXPECT_EQ(parsed(files, "tokenizer.json")["normalizer"]["normalizers"][0]["type"], "Prepend");
}

TEST(HfTokenizer, ModelsThatTokenizersCannotExpressKeepTheirFileAlone) {
  for (const Kind& kind : {Kind{.bpe = false}, Kind{.dummy_prefix = true}, Kind{.maps_characters = true}}) {
    const auto files = sentencepiece_tokenizer_files(model(kind), {.bos_id = 1, .add_bos = true});
    EXPECT_EQ(parsed(files, "tokenizer.json"), nullptr);
    EXPECT_EQ(parsed(files, "tokenizer_config.json")["tokenizer_class"], "LlamaTokenizer");
    EXPECT_EQ(parsed(files, "tokenizer_config.json")["add_bos_token"], true);
  }
  EXPECT_THROW(sentencepiece_tokenizer_files("\x0a\xff", {}), DataError);
}

TEST(HfTokenizer, BytesHaveTheirOwnIdsAndAreRecognised) {
  const ScratchDirectory directory;
  EXPECT_FALSE(is_byte_tokenizer(directory.path()));
  const auto files = byte_tokenizer_files({.eos_id = 256});
  const json tokenizer = parsed(files, "tokenizer.json");
  const json& vocabulary = tokenizer["model"]["vocab"];
  EXPECT_EQ(vocabulary.size(), 256);
  EXPECT_EQ(vocabulary["a"], 'a');
  EXPECT_EQ(vocabulary["Ġ"], ' ');
  EXPECT_EQ(vocabulary["Ċ"], '\n');
  EXPECT_EQ(vocabulary["ÿ"], 255);
  EXPECT_EQ(tokenizer["added_tokens"][0]["id"], 256);
  for (const HfTokenizerFile& file : files) directory.write(file.name, file.text);
  EXPECT_TRUE(is_byte_tokenizer(directory.path()));
  EXPECT_EQ(make_tokenizer(directory.path().string())->name(), "byte");
  directory.write("tokenizer_config.json", "[1");
  EXPECT_FALSE(is_byte_tokenizer(directory.path()));
}

}  // namespace
}  // namespace braid::data
