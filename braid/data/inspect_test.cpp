#include "braid/data/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"

namespace braid::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

std::vector<int64_t> byte_ids(const std::string& text) {
  std::vector<int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  ids.push_back(256);
  return ids;
}

class Inspect : public testing::Test {
 protected:
  // Replaces the directory's name, which differs in every run.
  std::string text(const Inspection& inspection) const {
    std::string out = to_text(inspection);
    return out.replace(out.find(prefix_), prefix_.size(), "corpus");
  }
  ScratchDirectory folder_;
  std::string prefix_ = folder_.file("corpus");
};

TEST_F(Inspect, ShowsCountsLengthsAndDocuments) {
  write_documents(prefix_, std::vector{byte_ids("hello\nworld"), byte_ids("\x1b[31mred\tone, and on and on"),
                                       byte_ids("x"), byte_ids("five!"), byte_ids("sixty")});
  EXPECT_EQ(text(inspect({.prefix = prefix_, .tokenizer = "byte", .bytes_shown = 12})),
            "corpus: 5 documents, 5 sequences, 54 tokens of uint16 (108 B)\n"
            "tokens per document: shortest 2, median 6, mean 10.8, longest 28\n"
            "  2 to 3    1  ####################\n"
            "  4 to 7    2  ########################################\n"
            "  8 to 15   1  ####################\n"
            "  16 to 31  1  ####################\n"
            "largest token id 256, within the vocabulary of 257\n"
            "no .meta.json, as braid data prepare writes it: the tokenizer is not known\n"
            "document 0, 12 tokens:\n"
            "  | hello\n"
            "  | world\n"
            "document 1, 28 tokens, beginning:\n"
            "  | ?[31mred\tone\n"
            "document 2, 2 tokens:\n"
            "  | x\n");
}

TEST_F(Inspect, WithoutATokenizerItShowsNoDocuments) {
  write_documents(prefix_, std::vector<std::vector<int64_t>>{{1, 2, 70000}}, TokenType::kI32);
  const auto found = inspect({.prefix = prefix_ + ".idx"});
  EXPECT_EQ(found.largest_token, 70000);
  EXPECT_EQ(found.shown.size(), 0u);
  EXPECT_THAT(text(found), HasSubstr("largest token id 70000\n"));
}

TEST_F(Inspect, DocumentsOfSeveralSequencesCountOnce) {
  IndexedWriter writer(prefix_, TokenType::kU16);
  writer.add_sequence(std::vector<int64_t>{97});
  writer.add_sequence(std::vector<int64_t>{98, 99});
  writer.end_document();
  writer.end_document();  // an empty document
  writer.finish();
  const auto found = inspect({.prefix = prefix_, .tokenizer = "byte"});
  EXPECT_EQ(found.sequences, 2);
  EXPECT_EQ(found.documents, 2);
  EXPECT_THAT(found.lengths,
              ElementsAre(LengthBucket{0, 0, 1}, LengthBucket{1, 1, 0}, LengthBucket{2, 3, 1}));
  ASSERT_EQ(found.shown.size(), 2u);
  EXPECT_EQ(found.shown[0].text, "abc");
  EXPECT_EQ(found.shown[1].text, "");
  EXPECT_TRUE(found.shown[0].whole);
}

TEST_F(Inspect, EmptyFilesAreValid) {
  write_documents(prefix_, {});
  EXPECT_EQ(text(inspect({.prefix = prefix_, .tokenizer = "byte"})),
            "corpus: 0 documents, 0 sequences, 0 tokens of uint16 (0 B)\n"
            "no .meta.json, as braid data prepare writes it: the tokenizer is not known\n");
}

TEST_F(Inspect, FindsDamageAndIdsOutsideTheVocabulary) {
  write_documents(prefix_, std::vector<std::vector<int64_t>>{{1, 2, 3}, {4, 300}});
  EXPECT_THAT([&] { inspect({.prefix = prefix_, .tokenizer = "byte"}); }, says<DataError>("300"));
  EXPECT_THAT([&] { inspect({.prefix = prefix_, .vocabulary_size = 300}); }, says<DataError>("corpus.bin"));
  EXPECT_NO_THROW(inspect({.prefix = prefix_, .vocabulary_size = 301}));
  EXPECT_THAT([&] { inspect({.prefix = prefix_, .documents_shown = -1}); },
              says<ConfigError>("documents_shown must be >= 0"));
  EXPECT_THAT([&] { inspect({.prefix = prefix_, .bytes_shown = 0}); },
              says<ConfigError>("bytes_shown must be >= 1"));
  std::string bin = read_bytes(prefix_ + ".bin");
  write_bytes(prefix_ + ".bin", bin.substr(0, 4));
  EXPECT_THAT([&] { inspect({.prefix = prefix_}); }, says<DataError>("corpus.bin"));
  EXPECT_THAT([&] { inspect({.prefix = folder_.file("none")}); }, Throws<DataError>());
}

}  // namespace
}  // namespace braid::data
