#include "braid/data/index/indexed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"

namespace braid::data {
namespace {

using testing::HasSubstr;

class IndexedFile : public testing::Test {
 protected:
  // Two documents: {1 2 3} {} and {4 500}.
  std::string write_small(TokenType type = TokenType::kU16) {
    const std::string prefix = folder_.file("small");
    IndexedWriter writer(prefix, type);
    writer.add_sequence(std::vector<int64_t>{1, 2, 3});
    writer.add_sequence(std::vector<int64_t>{});
    writer.end_document();
    writer.add_sequence(std::vector<int64_t>{4, 100});
    writer.end_document();
    writer.finish();
    return prefix;
  }

  // The error on opening `prefix`; "" if there is none.
  static std::string error_of(const std::string& prefix) {
    try {
      IndexedReader reader(prefix);
      return "";
    } catch (const DataError& error) {
      return error.what();
    }
  }

  ScratchDirectory folder_;
};

TEST_F(IndexedFile, EqualsMegatronsByteForByte) {
  const std::string prefix = write_small();
  // The layout given by the format's description and numpy's little-endian arrays.
  const std::vector<unsigned char> idx = {
      'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,           // magic
      1,   0,   0,   0,   0,   0,   0,   0,              // version
      8,                                                 // uint16
      3,   0,   0,   0,   0,   0,   0,   0,              // sequences
      3,   0,   0,   0,   0,   0,   0,   0,              // document entries
      3,   0,   0,   0,   0,   0,   0,   0, 2, 0, 0, 0,  // lengths
      0,   0,   0,   0,   0,   0,   0,   0, 6, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,   // offsets
      0,   0,   0,   0,   0,   0,   0,   0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};  // documents
  EXPECT_EQ(read_bytes(prefix + ".idx"), std::string(idx.begin(), idx.end()));
  EXPECT_EQ(read_bytes(prefix + ".bin"), std::string("\1\0\2\0\3\0\4\0\144\0", 10));
  EXPECT_FALSE(std::filesystem::exists(prefix + ".idx.partial"));
  EXPECT_FALSE(std::filesystem::exists(prefix + ".bin.partial"));
}

TEST_F(IndexedFile, ReadsBackEveryTokenType) {
  for (const TokenType type : {TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kI32,
                               TokenType::kI64, TokenType::kU16, TokenType::kU32, TokenType::kU64}) {
    SCOPED_TRACE(name_of(type));
    const std::string prefix = folder_.file("typed");
    const auto [smallest, largest] = limits_of(type);
    const std::vector<int64_t> tokens = {0, 1, smallest, largest, largest - 1, 7};
    {
      IndexedWriter writer(prefix, type);
      writer.add_sequence(tokens);
      writer.add_sequence(std::vector<int64_t>{9});
      writer.end_document();
      EXPECT_EQ(writer.token_count(), 7);
      writer.finish();
    }
    const IndexedReader reader(prefix);
    EXPECT_EQ(reader.token_type(), type);
    EXPECT_EQ(reader.sequence_count(), 2);
    EXPECT_EQ(reader.document_count(), 1);
    EXPECT_EQ(reader.token_count(), 7);
    EXPECT_EQ(reader.sequence(0), tokens);
    EXPECT_EQ(reader.sequence(1), std::vector<int64_t>{9});
    std::vector<int64_t> part(2);
    reader.read(0, 3, 2, part.data());
    EXPECT_EQ(part, (std::vector<int64_t>{largest, largest - 1}));
    EXPECT_THROW(reader.read(0, 5, 2, part.data()), InternalError);
    EXPECT_THROW(reader.read(2, 0, 0, part.data()), InternalError);
  }
}

TEST_F(IndexedFile, TokenTypeFollowsTheVocabulary) {
  EXPECT_EQ(token_type_for_vocabulary(65499), TokenType::kU16);
  EXPECT_EQ(token_type_for_vocabulary(65500), TokenType::kI32);
}

TEST_F(IndexedFile, EmptyFilesAreValid) {
  const std::string prefix = folder_.file("empty");
  IndexedWriter(prefix, TokenType::kI32).finish();
  const IndexedReader reader(prefix);
  EXPECT_EQ(reader.sequence_count(), 0);
  EXPECT_EQ(reader.document_count(), 0);
  EXPECT_EQ(find_max_token(reader), -1);
  EXPECT_NO_THROW(check_token_ids(reader, 1));
}

TEST_F(IndexedFile, EveryTruncationIsRejectedWithTheFileAndTheRemedy) {
  const std::string prefix = write_small();
  const std::string idx = read_bytes(prefix + ".idx");
  for (size_t size = 0; size < idx.size(); ++size) {
    write_bytes(prefix + ".idx", idx.substr(0, size));
    const std::string error = error_of(prefix);
    ASSERT_THAT(error, HasSubstr(prefix + ".idx")) << "truncated at " << size;
    ASSERT_THAT(error, HasSubstr("truncated")) << "truncated at " << size;
    ASSERT_THAT(error, HasSubstr("copy it again or prepare it again")) << "truncated at " << size;
  }
  write_bytes(prefix + ".idx", idx);
  const std::string bin = read_bytes(prefix + ".bin");
  for (size_t size = 0; size < bin.size(); ++size) {
    write_bytes(prefix + ".bin", bin.substr(0, size));
    ASSERT_THAT(error_of(prefix), HasSubstr(cat("small.bin, byte ", size,
                                                ": the file is truncated: expected 10 bytes, has ", size)));
  }
  write_bytes(prefix + ".bin", bin + "x");
  EXPECT_THAT(error_of(prefix), HasSubstr("the two files do not match"));
}

// Any single damaged byte is either rejected or leaves a file with all tokens readable; in the counts,
// lengths, offsets and documents it is always rejected, except for a document boundary that moved to another
// valid position.
TEST_F(IndexedFile, DamagedBytesAreRejectedOrHarmless) {
  const std::string prefix = write_small();
  const std::string idx = read_bytes(prefix + ".idx");
  for (size_t at = 0; at < idx.size(); ++at) {
    for (const int flip : {0x01, 0x02, 0x80, 0xff}) {
      std::string damaged = idx;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      write_bytes(prefix + ".idx", damaged);
      const std::string error = error_of(prefix);
      const bool is_type = at == 17;
      const bool is_inner_document = at >= 34 + 36 + 8 && at < 34 + 36 + 16;
      if (error.empty()) {
        ASSERT_TRUE(is_type || is_inner_document)
            << "byte " << at << " flipped by " << flip << " was accepted";
        const IndexedReader reader(prefix);
        for (int64_t i = 0; i < reader.sequence_count(); ++i) reader.sequence(i);
      } else {
        ASSERT_THAT(error, HasSubstr("small.")) << error;
      }
    }
  }
}

TEST_F(IndexedFile, DescribesEachKindOfDamage) {
  const std::string prefix = write_small();
  const std::string good = read_bytes(prefix + ".idx");
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string damaged = good;
    damaged.replace(at, bytes.size(), bytes);
    write_bytes(prefix + ".idx", damaged);
    return error_of(prefix);
  };
  EXPECT_THAT(with(0, "X"), HasSubstr("byte 0: this is not a Megatron index"));
  EXPECT_THAT(with(0, std::string("TNTIDX\0\0", 8)), HasSubstr("old lazy/cached format (TNTIDX)"));
  EXPECT_THAT(with(0, "version https://git-lfs.github.com"),
              HasSubstr("this is a Git LFS pointer, not a Megatron"));
  EXPECT_THAT(with(0, "<!doctype html>" + std::string(good.size(), ' ')),
              HasSubstr("byte 0: this is an HTML page, not a Megatron index"));
  EXPECT_THAT(with(9, "\2"), HasSubstr("byte 9: unknown version 2"));
  EXPECT_THAT(with(17, "\6"), HasSubstr("byte 17: token type code 6 is a floating-point type"));
  EXPECT_THAT(with(17, "\7"), HasSubstr("floating-point"));
  EXPECT_THAT(with(17, "\13"), HasSubstr("unknown token type code 11"));
  EXPECT_THAT(with(18, "\377\377\377\377\377\377\377\377"),
              HasSubstr("truncated: it declares 18446744073709551615 sequences"));
  EXPECT_THAT(with(26, std::string(1, '\0')), HasSubstr("byte 26: the document index is empty"));
  EXPECT_THAT(with(26, "\2"), HasSubstr("expected the file to end"));
  EXPECT_THAT(with(37, "\200"), HasSubstr("byte 34: sequence 0 has the negative length"));
  EXPECT_THAT(
      with(34, "\2"),
      HasSubstr(
          "byte 54: sequence 1 begins at byte 6 of the .bin according to its offset, but at 4 according to"));
  EXPECT_THAT(with(42, "\3"),
              HasSubstr("small.bin, byte 10: the file is truncated: expected 12 bytes, has 10"));
  EXPECT_THAT(with(70, "\1"), HasSubstr("byte 70: the document index begins with 1"));
  EXPECT_THAT(with(78, "\4"), HasSubstr("byte 78: document entry 1 is 4, outside [0, 3]"));
  EXPECT_THAT(with(86, "\2"),
              HasSubstr("byte 86: the document index ends at sequence 2, but there are 3 sequences"));
  write_bytes(prefix + ".idx", good + std::string(3, '\0'));
  EXPECT_EQ(error_of(prefix), "") << "all modes are text";
  write_bytes(prefix + ".idx", good + std::string("\0\1\0", 3));
  EXPECT_THAT(error_of(prefix), HasSubstr("byte 95: this is a multimodal file"));
}

TEST_F(IndexedFile, MissingFilesAreNamed) {
  const std::string prefix = write_small();
  EXPECT_THAT(error_of(folder_.file("none")), HasSubstr(".bin exists; pass the common prefix"));
  std::filesystem::rename(prefix + ".bin", folder_.file("kept"));
  EXPECT_THAT(error_of(prefix), HasSubstr("small.bin: is missing next to"));
  std::filesystem::rename(folder_.file("kept"), prefix + ".bin");
  std::filesystem::remove(prefix + ".idx");
  EXPECT_THAT(error_of(prefix), HasSubstr("small.idx: is missing next to"));
  std::filesystem::create_directory(prefix + ".idx");
  EXPECT_THAT(error_of(prefix), HasSubstr("not a regular file"));
  write_bytes(folder_.file("old_idx.npz"), "PK");
  EXPECT_THAT(error_of(folder_.file("old")), HasSubstr("PaddleNLP's old format"));
}

TEST_F(IndexedFile, AnIncompletePairIsNeverRead) {
  const std::string prefix = folder_.file("half");
  {
    IndexedWriter writer(prefix, TokenType::kU16);
    writer.add_sequence(std::vector<int64_t>{1});
    EXPECT_THROW(writer.finish(), InternalError) << "within a document";
    EXPECT_TRUE(std::filesystem::exists(prefix + ".bin.partial"));
    EXPECT_FALSE(std::filesystem::exists(prefix + ".bin"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.file(""))) << "an abandoned writer leaves no files";
}

TEST_F(IndexedFile, WriterRejectsIdsThatDoNotFit) {
  IndexedWriter writer(folder_.file("range"), TokenType::kU16);
  try {
    writer.add_sequence(std::vector<int64_t>{5, 65536});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("token id 65536 does not fit in uint16 [0, 65535]"));
  }
  EXPECT_THROW(writer.add_sequence(std::vector<int64_t>{-1}), DataError);
  EXPECT_EQ(writer.sequence_count(), 0);
  EXPECT_THROW(IndexedWriter(folder_.file("no/such/folder"), TokenType::kU8), OutputError);
}

TEST_F(IndexedFile, AFullDiskCausesAnOutputError) {
  FileSink full("/dev/full");
  full.write_value(1);
  try {
    full.close();
    FAIL();
  } catch (const OutputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("/dev/full: cannot be written after 0 bytes: No space left on device; "
                          "free some space"));
  }
}

TEST_F(IndexedFile, AppendingFilesEqualsWritingASingleFile) {
  const std::string small = write_small();
  const IndexedReader part(small);
  IndexedWriter merged(folder_.file("merged"), TokenType::kU16);
  merged.append_file(part);
  merged.add_sequence(std::vector<int64_t>{77});
  EXPECT_THROW(merged.append_file(part), InternalError) << "within a document";
  merged.end_document();
  merged.append_file(part);
  merged.finish();

  const IndexedReader reader(folder_.file("merged"));
  EXPECT_EQ(reader.document_count(), 5);
  EXPECT_EQ(reader.sequence_count(), 7);
  EXPECT_EQ(reader.token_count(), 11);
  const std::vector<int64_t> begins = {0, 2, 3, 4, 6, 7};
  for (size_t d = 0; d < begins.size(); ++d)
    EXPECT_EQ(reader.document_begin(static_cast<int64_t>(d)), begins[d]);
  EXPECT_EQ(reader.sequence(3), std::vector<int64_t>{77});
  EXPECT_EQ(reader.sequence(6), (std::vector<int64_t>{4, 100}));
  IndexedWriter other(folder_.file("other"), TokenType::kI32);
  EXPECT_THROW(other.append_file(part), DataError);
}

TEST_F(IndexedFile, FindsTokenIdsBeyondTheVocabulary) {
  for (const TokenType type : {TokenType::kI8, TokenType::kI16, TokenType::kI32, TokenType::kI64,
                               TokenType::kU16, TokenType::kU64}) {
    for (const int32_t threads : {1, 3}) {
      SCOPED_TRACE(cat(name_of(type), " ", threads));
      const std::string prefix = folder_.file("ids");
      IndexedWriter writer(prefix, type);
      std::vector<int64_t> tokens(100000, 3);
      tokens[99999] = 99;
      writer.add_sequence(tokens);
      writer.add_sequence(std::vector<int64_t>{});
      writer.add_sequence(std::vector<int64_t>{1, 2, 100, 3, 101});
      writer.end_document();
      writer.finish();
      const IndexedReader reader(prefix);
      EXPECT_EQ(find_max_token(reader, threads), 101);
      EXPECT_NO_THROW(check_token_ids(reader, 102, threads));
      EXPECT_NO_THROW(check_token_ids(reader, int64_t{1} << 40, threads));
      try {
        check_token_ids(reader, 100, threads);
        FAIL();
      } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr(cat("ids.bin, byte ", 100002 * bytes_of(type),
                                                " (sequence 2): token id 100 is outside the "
                                                "vocabulary of 100 (0 to 99)")));
        EXPECT_THAT(error.what(), HasSubstr("its largest id, 101"));
      }
    }
  }
}

TEST_F(IndexedFile, FindsNegativeTokenIds) {
  for (const TokenType type : {TokenType::kI8, TokenType::kI16, TokenType::kI32, TokenType::kI64}) {
    const std::string prefix = folder_.file("negative");
    IndexedWriter writer(prefix, type);
    writer.add_sequence(std::vector<int64_t>{1, 2, -100, 3});
    writer.end_document();
    writer.finish();
    const IndexedReader reader(prefix);
    for (const int64_t vocabulary : {int64_t{10}, int64_t{200}, int64_t{1} << 50}) {
      EXPECT_THROW(check_token_ids(reader, vocabulary), DataError) << name_of(type) << " " << vocabulary;
    }
  }
}

}  // namespace
}  // namespace braid::data
