#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "braid/base/error.h"
#include "braid/base/fingerprint.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/index/indexed_file.h"
#include "braid/data/index/numpy_random.h"
#include "braid/data/test_files.h"

namespace braid::data {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

class Writer : public testing::Test {
 protected:
  // Document d has d + 1 sequences: {d}, {d d}, ...
  void add_documents(IndexedWriter& writer, int64_t count) const {
    for (int64_t d = 0; d < count; ++d) {
      for (int64_t s = 0; s <= d; ++s)
        writer.add_sequence(std::vector<int64_t>(static_cast<size_t>(s + 1), d));
      writer.end_document();
    }
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  ScratchDirectory folder_;
  std::string prefix_ = folder_.file("t");
};

TEST_F(Writer, ShufflesWholeDocumentsAsNumpyDoes) {
  IndexedWriter writer(prefix_, TokenType::kU16);
  add_documents(writer, 10);
  writer.shuffle_documents(7);
  writer.finish();
  // numpy.random.RandomState(7).permutation(10)
  const std::vector<int64_t> order = {8, 5, 0, 2, 1, 9, 7, 3, 6, 4};
  const IndexedReader reader(prefix_);
  ASSERT_EQ(reader.document_count(), 10);
  for (int64_t d = 0; d < 10; ++d) {
    const int64_t was = order[static_cast<size_t>(d)];
    ASSERT_EQ(reader.document_begin(d + 1) - reader.document_begin(d), was + 1);
    for (int64_t s = 0; s <= was; ++s) {
      EXPECT_EQ(reader.sequence(reader.document_begin(d) + s),
                std::vector<int64_t>(static_cast<size_t>(s + 1), was));
    }
  }
  EXPECT_THAT(files(), testing::ElementsAre("t.bin", "t.idx"));
}

TEST_F(Writer, AnInterruptedShuffleLeavesNothing) {
  struct Stopped {};
  {
    IndexedWriter writer(prefix_, TokenType::kU16);
    add_documents(writer, 4);
    EXPECT_THROW(writer.shuffle_documents(1, [](double) { throw Stopped(); }), Stopped);
  }
  EXPECT_TRUE(files().empty());
  IndexedWriter writer(prefix_, TokenType::kU16);
  add_documents(writer, 4);
  EXPECT_THAT([&] { writer.shuffle_documents(int64_t{1} << 32); }, says<ConfigError>("seed"));
  writer.shuffle_documents(1);
  EXPECT_THAT([&] { writer.shuffle_documents(1); }, Throws<InternalError>());
  EXPECT_THAT([&] { writer.add_sequence(std::vector<int64_t>{1}); }, Throws<InternalError>());
}

TEST_F(Writer, TheRecordTellsOfTheFilesBesideIt) {
  const auto write = [this](int64_t documents, bool with_record) {
    IndexedWriter writer(prefix_, TokenType::kU16);
    add_documents(writer, documents);
    if (with_record) {
      writer.finish(DataRecord{.tokenizer = {.kind = "byte", .vocabulary_size = 257}});
    } else {
      writer.finish();
    }
  };
  write(3, true);
  EXPECT_THAT(files(), testing::ElementsAre("t.bin", "t.idx", "t.meta.json"));
  const IndexedReader reader(prefix_);
  ASSERT_TRUE(reader.record());
  EXPECT_EQ(reader.record()->documents, 3);
  EXPECT_EQ(reader.record()->tokens, 10);
  EXPECT_EQ(reader.record()->bin_fingerprint, file_fingerprint(prefix_ + ".bin"));
  check_fingerprint(reader);

  const std::string record = folder_.read("t.meta.json");
  write(2, false);
  EXPECT_THAT(files(), testing::ElementsAre("t.bin", "t.idx")) << "a record of the old files would be wrong";
  folder_.write("t.meta.json", record);
  EXPECT_THAT([&] { IndexedReader{prefix_}; },
              says<DataError>("t.meta.json: tells of 3 documents and 10 tokens, but " + prefix_ +
                              ".idx has 2 and 4"));

  write(3, true);
  std::string bin = folder_.read("t.bin");
  ++bin[4];
  folder_.write("t.bin", bin);
  EXPECT_THAT([&] { check_fingerprint(IndexedReader(prefix_)); },
              says<DataError>("t.bin: is not the file of which " + prefix_ + ".meta.json tells"));
}

TEST_F(Writer, ALossMaskIsRejectedByName) {
  IndexedWriter writer(prefix_, TokenType::kU16);
  add_documents(writer, 2);
  writer.finish();
  folder_.write("t.lsm", "1111");
  EXPECT_THAT([&] { IndexedReader{prefix_}; }, says<DataError>("t.lsm: is a loss mask"));
}

}  // namespace
}  // namespace braid::data
