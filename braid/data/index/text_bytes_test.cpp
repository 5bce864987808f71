#include "braid/data/index/text_bytes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "braid/base/scratch_directory.h"
#include "braid/data/index/batch.h"

namespace braid::data {
namespace {

class CountTextBytes : public testing::Test {
 protected:
  // A file of one document with this record.
  void add(const DataRecord& record) {
    const std::string prefix = folder_.file("t" + std::to_string(files_.size()));
    IndexedWriter writer(prefix, TokenType::kU16);
    writer.add_sequence(std::vector<int64_t>{3, 4, 2});
    writer.end_document();
    writer.finish(record);
    files_.emplace_back(prefix);
  }
  static DataRecord record() {
    return {.tokenizer =
                {.kind = "sentencepiece", .fingerprint = "x", .vocabulary_size = 5, .bos_id = 1, .eos_id = 2},
            .eod_id = 2,
            .token_bytes = {0, 0, 0, 3, 10}};
  }
  int64_t count(const std::vector<int64_t>& tokens, const std::vector<int64_t>& labels) const {
    return TextBytes::of(files_)->count(at::tensor(tokens, at::kLong), at::tensor(labels, at::kLong));
  }
  ScratchDirectory folder_;
  std::vector<IndexedReader> files_;
};

TEST_F(CountTextBytes, OfEveryLabelByItsId) {
  add(record());
  EXPECT_EQ(count({3, 4, 2, 3}, {4, 2, 3, 4}), 10 + 0 + 3 + 10);
  EXPECT_EQ(count({3, 4}, {kIgnoredLabel, 7}), 0) << "padding, and an id of a larger embedding";
}

TEST_F(CountTextBytes, ASpaceBeforeADocumentIsNotText) {
  DataRecord with_space = record();
  with_space.extra_bytes_per_document = 1;
  add(with_space);
  EXPECT_EQ(count({3, 4, 2, 3}, {4, 2, 3, 4}), 10 + 0 + (3 - 1) + 10);
  EXPECT_EQ(count({2}, {2}), 0) << "an empty document has none";
  files_.clear();
  with_space.add_bos = true;
  add(with_space);
  EXPECT_EQ(count({3, 2, 1, 3}, {2, 1, 3, 4}), 0 + 0 + (3 - 1) + 10);
  files_.clear();
  with_space.add_bos = false;
  with_space.eod_id = std::nullopt;
  add(with_space);
  EXPECT_FALSE(TextBytes::of(files_)) << "nothing tells where documents begin";
}

TEST_F(CountTextBytes, OnlyWhereEveryFileTells) {
  add(record());
  add(record());
  EXPECT_TRUE(TextBytes::of(files_));
  DataRecord other = record();
  other.tokenizer.fingerprint = "y";
  add(other);
  EXPECT_FALSE(TextBytes::of(files_));
  files_.pop_back();
  other = record();
  other.token_bytes.clear();
  add(other);
  EXPECT_FALSE(TextBytes::of(files_)) << "the tokenizer changes the text";
}

}  // namespace
}  // namespace braid::data
