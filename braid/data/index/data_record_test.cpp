#include "braid/data/index/data_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::data {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

DataRecord example() {
  return {.tokenizer = {.kind = "sentencepiece",
                        .fingerprint = "sha256:0123456789abcdef0123456789abcdef",
                        .vocabulary_size = 3,
                        .bos_id = 1,
                        .eos_id = 2},
          .add_bos = true,
          .eod_id = 2,
          .documents = 10,
          .tokens = 200,
          .text_bytes = 4000,
          .shuffle_seed = 7,
          .bin_fingerprint = "ff00",
          .token_bytes = {0, 5, 0},
          .extra_bytes_per_document = 1};
}

class Record : public testing::Test {
 protected:
  void write(const DataRecord& record) const { folder_.write("text.meta.json", to_json(record)); }
  // The example with one key replaced, or removed by `null` text.
  void write_with(const std::string& key, const nlohmann::ordered_json& value) const {
    auto object = nlohmann::ordered_json::parse(to_json(example()));
    object[nlohmann::ordered_json::json_pointer(key)] = value;
    folder_.write("text.meta.json", object.dump());
  }
  ScratchDirectory folder_;
  std::string prefix_ = folder_.file("text");
};

TEST_F(Record, ReadsBackWhatWasWritten) {
  EXPECT_EQ(read_record(prefix_), std::nullopt);
  for (DataRecord record : {example(), DataRecord{.tokenizer = {.kind = "byte", .vocabulary_size = 257}}}) {
    write(record);
    EXPECT_EQ(read_record(prefix_), record);
  }
}

TEST_F(Record, IsNamedInEveryError) {
  const auto read = [this] { read_record(prefix_); };
  write_with("/version", 2);
  EXPECT_THAT(read, says<DataError>("text.meta.json: has version 2, but this braid knows 1"));
  write_with("/format", "other");
  EXPECT_THAT(read, says<DataError>("text.meta.json: is not braid's record"));
  write_with("/documents", -1);
  EXPECT_THAT(read, says<DataError>("\"documents\" must be a whole number of at least 0, is -1"));
  write_with("/tokens", "many");
  EXPECT_THAT(read, says<DataError>("\"tokens\" must be a whole number of at least 0, is \"many\""));
  write_with("/add_bos", 1);
  EXPECT_THAT(read, says<DataError>("\"add_bos\" is 1, a value of the wrong type"));
  write_with("/token_bytes", {1, 2});
  EXPECT_THAT(read, says<DataError>("\"token_bytes\" has 2 numbers, but the vocabulary has 3"));
  write_with("/tokenizer/bos_id", nullptr);
  EXPECT_THAT(read, says<DataError>("\"add_bos\" is true, but the tokenizer has no \"bos_id\""));
  folder_.write("text.meta.json", "{\"format\": \"braid token files\"}");
  EXPECT_THAT(read, says<DataError>("text.meta.json: has no \"version\""));
  folder_.write("text.meta.json", "{\"format\"");
  EXPECT_THAT(read, says<DataError>("text.meta.json, byte 10: is not JSON"));
  folder_.write("text.meta.json", "[]");
  EXPECT_THAT(read, says<DataError>("text.meta.json: is not a JSON object"));
  folder_.write("text.meta.json", "");
  EXPECT_THAT(read, says<DataError>("text.meta.json is an empty file"));
}

TEST(TokenizerIdentity, IsItsKindAndItsFile) {
  const TokenizerIdentity byte = {.kind = "byte", .vocabulary_size = 257};
  TokenizerIdentity other = example().tokenizer;
  EXPECT_EQ(to_text(byte), "byte");
  EXPECT_EQ(to_text(other), "sentencepiece sha256:0123456789ab (3 ids)");
  EXPECT_TRUE(is_same(byte, byte));
  EXPECT_FALSE(is_same(byte, other));
  other.fingerprint = "sha256:1" + other.fingerprint.substr(8);
  EXPECT_FALSE(is_same(example().tokenizer, other));
}

TEST_F(Record, SaysForAWholeInputWhetherDocumentsBeginWithBos) {
  for (const char* name : {"a", "b", "c"}) folder_.write(std::string(name) + ".idx", "");
  const std::string input = folder_.path().string();
  EXPECT_EQ(add_bos_of(input), std::nullopt);
  folder_.write("b.meta.json", to_json(example()));
  EXPECT_EQ(add_bos_of(input), true) << "a file without a record says nothing";
  DataRecord without = example();
  without.add_bos = false;
  folder_.write("c.meta.json", to_json(without));
  EXPECT_THAT([&] { add_bos_of(input); },
              says<ConfigError>("documents of " + folder_.file("b") + " begin with a BOS id, those of " +
                                folder_.file("c") + " do not"));
  folder_.write("b.meta.json", to_json(without));
  EXPECT_EQ(add_bos_of(input), false);
  folder_.write("c.meta.json", to_json(example()));
  EXPECT_THAT([&] { add_bos_of(input); },
              says<ConfigError>("documents of " + folder_.file("c") + " begin with a BOS id, those of " +
                                folder_.file("b") + " do not"));
}

}  // namespace
}  // namespace braid::data
