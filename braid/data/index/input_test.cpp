#include "braid/data/index/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"

namespace braid::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Input : public testing::Test {
 protected:
  void touch(const std::string& name) { write_bytes(folder_.file(name), "x"); }
  static std::string error_of(const std::string& input) {
    try {
      parse_input(input);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }
  ScratchDirectory folder_;
};

TEST_F(Input, ADirectoryListsAllItsFilesInOrder) {
  for (const char* name : {"b.idx", "b.bin", "a.idx", "a.bin", "notes.txt", "c_idx.npz"}) touch(name);
  std::filesystem::create_directory(folder_.file("index-cache"));
  EXPECT_EQ(parse_input(folder_.file("")),
            (std::vector<WeightedPrefix>{{1, folder_.file("a")}, {1, folder_.file("b")}}));
}

TEST_F(Input, APrefixMayHaveItsSuffix) {
  touch("a_text_document.idx");
  touch("a_text_document.bin");
  const std::vector<WeightedPrefix> expected = {{1, folder_.file("a_text_document")}};
  for (const char* suffix : {"", ".idx", ".bin"})
    EXPECT_EQ(parse_input(folder_.file("a_text_document") + suffix), expected);
}

TEST_F(Input, WeightsAndPrefixes) {
  touch("a.idx");
  touch("b.bin");
  const std::string list = "0.3 " + folder_.file("a") + "  7e-1 " + folder_.file("b.bin");
  EXPECT_EQ(parse_input(list),
            (std::vector<WeightedPrefix>{{0.3, folder_.file("a")}, {0.7, folder_.file("b")}}));
}

TEST_F(Input, PathsMayHaveSpaces) {
  std::filesystem::create_directory(folder_.file("two words"));
  touch("two words/a b.idx");
  EXPECT_EQ(parse_input(folder_.file("two words")).at(0).prefix, folder_.file("two words/a b"));
  EXPECT_EQ(parse_input(folder_.file("two words/a b")).at(0).prefix, folder_.file("two words/a b"));
}

TEST_F(Input, ADirectoryWithoutTokenFilesIsDescribed) {
  const std::string path = folder_.file("d");
  std::filesystem::create_directory(path);
  EXPECT_THAT(error_of(path), AllOf(HasSubstr("has no .idx file"), HasSubstr("braid data prepare")));
  touch("d/book.txt");
  EXPECT_THAT(error_of(path), AllOf(HasSubstr("has text files (book.txt)"), HasSubstr("braid data prepare")));
  touch("d/x.idx.partial");
  EXPECT_THAT(error_of(path), HasSubstr("did not finish"));
  touch("d/x.bin");
  EXPECT_THAT(error_of(path), HasSubstr("has x.bin but no x.idx"));
  touch("d/old_idx.npz");
  EXPECT_THAT(error_of(path), HasSubstr("old_idx.npz is PaddleNLP's old format"));
}

TEST_F(Input, AMissingPrefixSuggestsTheNearest) {
  touch("wiki_text_document.idx");
  EXPECT_THAT(error_of(folder_.file("wiki_text_documnt")),
              HasSubstr("did you mean " + folder_.file("wiki_text_document")));
  EXPECT_THAT(error_of(folder_.file("wiki")),
              HasSubstr("did you mean " + folder_.file("wiki_text_document")));
  EXPECT_THAT(error_of(folder_.file("other")), HasSubstr("that directory has wiki_text_document.idx"));
  EXPECT_THAT(error_of(folder_.file("no/such")), HasSubstr("nor does the directory"));
  touch("old_idx.npz");
  EXPECT_THAT(error_of(folder_.file("old")), HasSubstr("PaddleNLP's old format"));
  touch("book.txt");
  EXPECT_THAT(error_of(folder_.file("book.txt")), HasSubstr("neither a directory nor a token file"));
}

TEST_F(Input, AListMustBePairs) {
  touch("a.idx");
  const std::string a = folder_.file("a");
  EXPECT_THAT(error_of(""), HasSubstr("input_dir is empty"));
  EXPECT_THAT(error_of("1 " + a + " 2"), HasSubstr("3 words"));
  EXPECT_THAT(error_of(a + " " + a), HasSubstr("instead of a weight"));
  EXPECT_THAT(error_of("1 " + a + " 2 " + a + ".bin"), HasSubstr("are the same file: give it once"));
  EXPECT_THAT(error_of("0 " + a), HasSubstr("must be above 0, got 0"));
  EXPECT_THAT(error_of("nan " + a), HasSubstr("must be above 0"));
  EXPECT_THAT(error_of("1 " + folder_.file("") + " 1 " + a),
              AllOf(HasSubstr("is a directory"), HasSubstr(a)));
  EXPECT_THAT(error_of("1 " + a + " 1 " + folder_.file("b")), HasSubstr(folder_.file("b")));
}

}  // namespace
}  // namespace braid::data
