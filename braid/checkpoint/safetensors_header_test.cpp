#include "braid/checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "braid/base/error.h"
#include "braid/checkpoint/test_files.h"

namespace braid::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SafetensorsHeader, SortsByRangeAndKeepsMetadata) {
  const SafetensorsHeader header = parse_safetensors_header(
      R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"k":"v"},"a":{"shape":[],"data_offsets":[0,4],"dtype":"F32"},
          "none":{"dtype":"F64","shape":[7,0],"data_offsets":[4,4]}} )",
      16, "f");
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0], (TensorEntry{"a", "F32", {}, 0, 4}));
  EXPECT_EQ(header.entries[1], (TensorEntry{"none", "F64", {7, 0}, 4, 4}));
  EXPECT_EQ(header.entries[2], (TensorEntry{"b", "BF16", {2, 3}, 4, 16}));
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"k", "v"}}));
}

TEST(SafetensorsHeader, AFileWithoutTensorsIsValid) {
  EXPECT_TRUE(parse_safetensors_header("{}", 0, "f").entries.empty());
}

TEST(SafetensorsHeader, FormatThenParseIsTheIdentity) {
  const SafetensorsHeader header{.entries = {{"a\"\n\\", "F32", {2}, 0, 8}, {"b", "I8", {}, 8, 9}},
                                 .metadata = {{"x", "\u00e9"}, {"y", ""}}};
  const std::string text = format_safetensors_header(header);
  EXPECT_EQ(text.size() % 8, 0u);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  EXPECT_EQ(length, text.size() - 8);
  EXPECT_EQ(parse_safetensors_header(text.substr(8), 9, "f"), header);
}

TEST(SafetensorsHeader, RejectsRepeatedNamesWhenWriting) {
  SafetensorsHeader header{.entries = {{"a", "I8", {}, 0, 1}, {"a", "I8", {}, 1, 2}}, .metadata = {}};
  EXPECT_THROW(format_safetensors_header(header), InternalError);
  header.entries = {{"__metadata__", "I8", {}, 0, 1}};
  EXPECT_THROW(format_safetensors_header(header), InternalError);
  header.entries = {{"\xff", "I8", {}, 0, 1}};
  EXPECT_THROW(format_safetensors_header(header), InternalError);
}

struct Hostile {
  std::string json;
  int64_t data_bytes;
  const char* message;
};

// A tensor entry "t" with the given fields.
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"("t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(SafetensorsHeader, RejectsEveryHostileHeaderWithTheReason) {
  const std::string good = tensor("F32", "[2]", "[0,8]");
  const std::string other = R"("u":{"dtype":"U8","shape":[4],"data_offsets":)";
  const std::vector<Hostile> headers = {
      {"", 0, "does not begin with '{'"},
      {"[]", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"\xef\xbb\xbf{}", 0, "does not begin with '{'"},
      {"{", 0, "invalid JSON"},
      {"{}}", 0, "invalid JSON"},
      {"{} x", 0, "invalid JSON"},
      {"{\"\xff\":1}", 0, "invalid JSON"},
      {std::string("{}\0x", 4), 0, "NUL"},
      {"{\"t\":1e999}", 0, "invalid JSON"},
      {"{\"t\":1}", 0, "unexpected number 1"},
      {"{\"t\":[]}", 0, "unexpected '['"},
      {"{\"t\":null}", 0, "unexpected null"},
      {"{\"t\":true}", 0, "unexpected true"},
      {"{\"t\":{}}", 0, "\"t\" has no dtype"},
      {"{" + good + "," + good + "}", 8, "\"t\" appears twice"},
      {R"({"t":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4, "dtype twice"},
      {R"({"t":{"dtype":"F32","shape":[]}})", 4, "no data_offsets"},
      {R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4, "no shape"},
      {R"({"t":{"dtype":"F32","shape":[],"offsets":[0,4]}})", 4, "unexpected key \"offsets\""},
      {R"({"t":{"dtype":"F32","shape":"x","data_offsets":[0,4]}})", 4, "unexpected string \"x\""},
      {R"({"t":{"dtype":["F32"],"shape":[],"data_offsets":[0,4]}})", 4, "unexpected '['"},
      {R"({"t":{"dtype":{"a":1},"shape":[],"data_offsets":[0,4]}})", 4, "unexpected '{'"},
      {"{" + tensor("F31", "[2]", "[0,8]") + "}", 8, "unknown dtype \"F31\""},
      {"{" + tensor("f32", "[2]", "[0,8]") + "}", 8, "unknown dtype"},
      {"{" + tensor("F32", "[-2]", "[0,8]") + "}", 8, "negative number -2"},
      {"{" + tensor("F32", "[2]", "[-8,0]") + "}", 8, "negative number -8"},
      {"{" + tensor("F32", "[2.0]", "[0,8]") + "}", 8, "not a 64-bit integer"},
      {"{" + tensor("F32", "[99999999999999999999]", "[0,8]") + "}", 8, "not a 64-bit integer"},
      {"{" + tensor("F32", "[[2]]", "[0,8]") + "}", 8, "unexpected '['"},
      {"{" + tensor("F32", "[2]", "[0]") + "}", 8, "1 data_offset instead of 2"},
      {"{" + tensor("F32", "[2]", "[0,8,8]") + "}", 8, "more than 2 numbers"},
      {"{" + tensor("F32", "[2]", "[8,0]") + "}", 8, "begins at 8 after its end at 0"},
      {"{" + tensor("F32", "[2]", "[0,18446744073709551615]") + "}", 8, "beyond 63 bits"},
      {"{" + tensor("F32", "[4294967296,4294967296]", "[0,8]") + "}", 8, "overflows"},
      {"{" + tensor("F32", "[4611686018427387904]", "[0,0]") + "}", 0, "overflows"},
      {"{" + tensor("F32", "[0,4294967296,4294967296]", "[0,0]") + "}", 0, "overflows"},
      {"{" + tensor("F32", "[3]", "[0,8]") + "}", 8, "has 12 bytes by its shape and dtype, but 8"},
      {"{" + tensor("F32", "[0]", "[0,8]") + "}", 8, "has 0 bytes by its shape"},
      {"{" + good + "}", 7, "exceeds the file, which has 7 bytes"},
      {"{" + good + "}", 9, "has 1 byte after its last tensor"},
      {"{}", 9, "has 9 bytes after its last tensor"},
      {"{" + tensor("F32", "[2]", "[1,9]") + "}", 9, "gap of 1 byte after the header"},
      {"{" + good + "," + other + "[4,8]}}", 8, "overlaps \"t\""},
      {"{" + good + "," + other + "[9,13]}}", 13, "gap of 1 byte after \"t\""},
      {"{" + good + "," + other + "[9223372036854775803,9223372036854775807]}}", 12, "exceeds the file"},
      {R"({"__metadata__":{"a":1}})", 0, "unexpected number 1"},
      {R"({"__metadata__":{"a":{}}})", 0, "unexpected '{'"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "metadata key \"a\" appears twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
      {R"({"__metadata__":[]})", 0, "unexpected '['"},
  };
  for (const Hostile& hostile : headers) {
    const std::string message = message_of<DataError>(
        [&] { parse_safetensors_header(hostile.json, hostile.data_bytes, "the/file"); });
    EXPECT_THAT(message, AllOf(HasSubstr("the/file"), HasSubstr(hostile.message))) << hostile.json;
  }
}

TEST(SafetensorsHeader, SurvivesDepthAndLengthBombs) {
  constexpr size_t kMany = 5'000'000;
  EXPECT_THROW(parse_safetensors_header("{\"t\":" + std::string(kMany, '['), 0, "f"), DataError);
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "{\"t\":";
  EXPECT_THROW(parse_safetensors_header(deep, 0, "f"), DataError);
  std::string shape = "[1";
  for (int i = 0; i < 200'000; ++i) shape += ",1";
  EXPECT_THROW(parse_safetensors_header("{" + tensor("U8", shape + "]", "[0,1]") + "}", 1, "f"), DataError);
  // Messages stay short and safe for a terminal whatever the name.
  const std::string name(kMany, 'n');
  const std::string message =
      message_of<DataError>([&] { parse_safetensors_header("{\"\\u001b" + name + "\":1}", 0, "f"); });
  EXPECT_LT(message.size(), 500u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace braid::checkpoint
