#include "braid/base/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string u64(uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::map<FileFormat, std::string> examples() {
  const std::string header = "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";
  return {
      {FileFormat::kText, "Just some words.\n"},
      {FileFormat::kBinary, "\x01\x02\0\x03"s},
      {FileFormat::kEmpty, ""},
      {FileFormat::kGitLfsPointer,
       "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 499723\n"},
      {FileFormat::kServerMessage, "Entry not found"},
      {FileFormat::kHtml, "\n<!DOCTYPE html>\n<html><body>404</body></html>"},
      {FileFormat::kXml, "<?xml version=\"1.0\"?><Error>AccessDenied</Error>"},
      {FileFormat::kJson, "  {\"a\": 1}"},
      {FileFormat::kUtf16, "\xff\xfeh\0i\0"s},
      {FileFormat::kTiktoken, "IQ== 0\nIg== 1\nIw== 2\nJA== 3\n"},
      {FileFormat::kSentencePiece, "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02\x0a\x0c"s},
      {FileFormat::kSafetensors, u64(header.size()) + header + "abcd"},
      {FileFormat::kTokenIndex, "MMIDIDX\0\0"s + u64(1)},
      {FileFormat::kOldTokenIndex, "TNTIDX\0\0"s + u64(1)},
      {FileFormat::kTorch, "PK\x03\x04\0\0pytorch_model/data.pkl\x80\x02"s},
      {FileFormat::kPickle, "\x80\x04\x95\x0b\0\0\0"s},
      {FileFormat::kGguf, "GGUF\x03\0\0\0"s},
      {FileFormat::kNumpy, "\x93NUMPY\x01\0v\0"s},
      {FileFormat::kHdf5, "\x89HDF\r\n\x1a\n\0"s},
      {FileFormat::kParquet, "PAR1\x15\x04\x15\0"s},
      {FileFormat::kArrow, "ARROW1\0\0"s},
      {FileFormat::kSqlite, "SQLite format 3\0\x10"s},
      {FileFormat::kGzip, "\x1f\x8b\x08\0"s},
      {FileFormat::kZstd, "\x28\xb5\x2f\xfd\x04"s},
      {FileFormat::kXz, "\xfd\x37zXZ\0\0"s},
      {FileFormat::kBzip2, "BZh91AY&SY\x01"},
      {FileFormat::kLz4, "\x04\x22\x4d\x18\x64"},
      {FileFormat::kZip, "PK\x03\x04\x14\0notes.txt"s},
      {FileFormat::kSevenZip, "7z\xbc\xaf\x27\x1c\0"s},
      {FileFormat::kTar, "notes.txt" + std::string(248, '\0') + "ustar  "},
      {FileFormat::kPdf, "%PDF-1.7\n"},
      {FileFormat::kImage, "\x89PNG\r\n\x1a\n\0"s},
      {FileFormat::kProgram,
       "\x7f"
       "ELF\x02\x01"},
  };
}

FileFormat format_of(const std::string& content) {
  return recognise_format(content, static_cast<int64_t>(content.size()));
}

std::string foreign(const std::string& content, FileFormat expected) {
  return foreign_file_text(content, static_cast<int64_t>(content.size()), expected);
}

TEST(ForeignFile, EveryFormatIsRecognisedAndDescribed) {
  const auto files = examples();
  EXPECT_EQ(files.size(), static_cast<size_t>(FileFormat::kProgram) + 1) << "an example for each";
  for (const auto& [format, content] : files) {
    EXPECT_EQ(name_of(format_of(content)), name_of(format));
    EXPECT_FALSE(name_of(format).empty());
    EXPECT_FALSE(cure_of(format).empty());
  }
}

TEST(ForeignFile, OlderFilesOfTorchAreNotJustPickles) {
  EXPECT_EQ(format_of("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02"),
            FileFormat::kTorch);
}

TEST(ForeignFile, ProseThatBeginsLikeAMagicNumberIsText) {
  EXPECT_EQ(format_of("BZh is how bzip2's files begin.\n"), FileFormat::kText);
  EXPECT_EQ(format_of("PAR1 is how Parquet's files begin.\n"), FileFormat::kText);
  EXPECT_EQ(format_of("GGUF models\n"), FileFormat::kText);
  EXPECT_EQ(format_of("\n\n\n\n\n\n"), FileFormat::kText);
  EXPECT_EQ(format_of("Item 0\nItem 1\nItem 2\n"), FileFormat::kTiktoken) << "four letters are base64, too";
  EXPECT_EQ(foreign("Item 0\nItem 1\nItem 2\n", FileFormat::kText), "") << "but text remains text";
  EXPECT_EQ(format_of("Entry not found, said the clerk. " + std::string(300, 'x')), FileFormat::kText);
  EXPECT_EQ(format_of("\xef\xbb\xbf[1]"), FileFormat::kJson);
}

TEST(ForeignFile, ATruncatedSafetensorsFileIsLeftToItsReader) {
  const std::string cut = u64(500) + "{\"w\"";
  EXPECT_EQ(format_of(cut), FileFormat::kBinary);
  EXPECT_EQ(foreign(cut, FileFormat::kSafetensors), "");
}

TEST(ForeignFile, EveryOtherFormatIsForeignToABinaryReader) {
  for (const FileFormat expected :
       {FileFormat::kSafetensors, FileFormat::kSentencePiece, FileFormat::kTokenIndex}) {
    for (const auto& [format, content] : examples()) {
      const bool passes = format == expected || format == FileFormat::kBinary;
      EXPECT_EQ(foreign(content, expected).empty(), passes) << name_of(format);
    }
  }
}

TEST(ForeignFile, AReaderOfTextTakesAllText) {
  for (const auto& [format, content] : examples()) {
    const bool is_text = format == FileFormat::kText || format == FileFormat::kHtml ||
                         format == FileFormat::kXml || format == FileFormat::kJson ||
                         format == FileFormat::kTiktoken || format == FileFormat::kServerMessage;
    EXPECT_EQ(foreign(content, FileFormat::kText).empty(), is_text) << name_of(format);
    const bool may_be_json = format == FileFormat::kText || format == FileFormat::kJson;
    EXPECT_EQ(foreign(content, FileFormat::kJson).empty(), may_be_json) << name_of(format);
  }
}

TEST(ForeignFile, TheErrorNamesTheFileWhatItIsAndTheCure) {
  const ScratchDirectory folder;
  const std::string path = folder.write("tokenizer.model", examples().at(FileFormat::kGitLfsPointer));
  try {
    reject_foreign_file(path, FileFormat::kSentencePiece);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(),
              path + " is a Git LFS pointer, not a SentencePiece model: run git lfs pull in its repository");
  }
  reject_foreign_file(folder.write("good.model", examples().at(FileFormat::kSentencePiece)),
                      FileFormat::kSentencePiece);
  reject_foreign_file(folder.file("absent"), FileFormat::kSentencePiece);  // its reader reports that
  EXPECT_THAT(foreign("", FileFormat::kJson),
              AllOf(HasSubstr("is an empty file, not a JSON file"), HasSubstr("again")));
}

}  // namespace
}  // namespace braid
