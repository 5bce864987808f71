#include "braid/cli/data_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/scratch_directory.h"
#include "braid/cli/test_context.h"
#include "braid/data/test_files.h"
#include "braid/data/tokenizer/sentencepiece.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Data : public testing::Test {
 protected:
  Data() {
    fs::create_directories(path("docs/deep"));
    data::write_bytes(path("docs/a.txt"), "Hello, world.");
    data::write_bytes(path("docs/deep/b.rst"), "Second.");
    data::write_bytes(path("c.jsonl"), "{\"body\": \"Third.\"}\n{\"body\": \"4\"}\n");
  }
  std::string path(const std::string& name) const { return folder_.file(name); }
  CallResult prepare(std::vector<std::string> more, const CallOptions& options = {}) const {
    more.insert(more.begin(), {"data", "prepare", "--tokenizer", "byte"});
    return call(std::move(more), options);
  }
  CallResult inspect(std::vector<std::string> more) const {
    more.insert(more.begin(), {"data", "inspect"});
    return call(std::move(more));
  }
  ScratchDirectory folder_;
};

TEST_F(Data, PreparesAndInspects) {
  const CallResult prepared = prepare({"--input", path("docs"), path("c.jsonl"), "--json_key", "body",
                                       "--shuffle", "0", "--output_prefix", path("out/t")});
  EXPECT_EQ(prepared.code, 0);
  EXPECT_EQ(prepared.err, "");
  EXPECT_THAT(prepared.out, StartsWith(path("out/t.bin") + " and " + path("out/t.idx") +
                                       ":\n4 documents, 31 tokens (uint16), "));
  const CallResult inspected = inspect({path("out/t"), "--tokenizer", "byte", "--documents", "1"});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_EQ(inspected.err, "");
  EXPECT_THAT(
      inspected.out,
      AllOf(StartsWith(path("out/t") + ": 4 documents, 4 sequences, 31 tokens of uint16"),
            HasSubstr("largest token id 256, within the vocabulary of 257\n"),
            HasSubstr("tokenizer: byte\ndocuments begin with nothing and end with id 256, in the order of "
                      "the input\n27 B of text\n"),
            HasSubstr("document 0, 14 tokens:\n  | Hello, world.\n")));
  EXPECT_THAT(inspected.out, testing::Not(HasSubstr("document 1")));
}

TEST_F(Data, EveryPrepareOptionTakesEffect) {
  const std::vector<std::string> base = {"--input", path("docs"), "--output_prefix", path("t")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return prepare(more);
  };
  EXPECT_THAT(with({}).out, HasSubstr("\n2 documents, 22 tokens"));
  const CallResult again = with({});
  EXPECT_EQ(again.code, kUserErrorExitCode);
  EXPECT_THAT(again.err, AllOf(HasSubstr(path("t.bin") + " exists"), HasSubstr("--overwrite")));
  EXPECT_THAT(with({"--overwrite"}).out, HasSubstr("\n2 documents, 22 tokens"));
  EXPECT_THAT(with({"--overwrite", "--append_eod", "0"}).out, HasSubstr("\n2 documents, 20 tokens"));
  EXPECT_THAT(with({"--overwrite", "--extensions", "rst"}).out, HasSubstr("\n1 document, 8 tokens"));
  EXPECT_THAT(with({"--overwrite", "--exclude", "deep"}).out, HasSubstr("\n1 document, 14 tokens"));
  EXPECT_THAT(with({"--overwrite", "--workers", "3"}).out, HasSubstr("\n2 documents, 22 tokens"));
  EXPECT_THAT(with({"--overwrite"}).out,
              HasSubstr("\ndocuments are shuffled with seed 1; --shuffle 0 keeps"));
  EXPECT_THAT(with({"--overwrite", "--shuffle", "0"}).out,
              HasSubstr("\ndocuments are in the order of the input\n"));
  EXPECT_THAT(with({"--overwrite", "--prepend_bos"}).err, HasSubstr("byte has no beginning-of-text token"));
  EXPECT_THAT(with({"--overwrite", "--format", "json"}).err, HasSubstr("a.txt:1: expected a JSON object"));
}

TEST_F(Data, DrawsAProgressBarOnATerminal) {
  const CallResult result =
      prepare({"--input", path("docs"), "--output_prefix", path("t")}, {.err_columns = 70});
  EXPECT_THAT(result.err, StartsWith("\r\033[Kprepare "));
  EXPECT_TRUE(result.err.ends_with("\r\033[K")) << "it is erased at the end";
}

TEST_F(Data, TrainsATokenizerOrNamesTheMissingBuildOption) {
  std::string text;
  // Two-letter words, so that there is enough to merge.
  for (int i = 0; i < 20'000; ++i) {
    text += static_cast<char>('a' + i * 7919 % 13);
    text += static_cast<char>('n' + i / 13 % 12);
    text += i % 9 == 0 ? '\n' : ' ';
  }
  data::write_bytes(path("many.txt"), text);
  const std::vector<std::string> arguments = {"data",      "tokenizer", "--input",      path("many.txt"),
                                              "--output",  path("tok"), "--vocab_size", "320",
                                              "--workers", "1"};
  const CallResult result = call(arguments);
  if (!data::sentencepiece_available()) {
    EXPECT_EQ(result.code, kUserErrorExitCode);
    EXPECT_THAT(result.err, HasSubstr("BRAID_WITH_SENTENCEPIECE"));
    return;
  }
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith(path("tok/tokenizer.model") + ": 320 pieces"));
  const CallResult again = call(arguments);
  EXPECT_EQ(again.code, kUserErrorExitCode);
  EXPECT_EQ(again.err, "braid data tokenizer: " + path("tok/tokenizer.model") +
                           " exists: choose another --output, or pass --overwrite 1 to replace it\n");
  std::vector<std::string> replacing = arguments;
  replacing.push_back("--overwrite");
  EXPECT_EQ(call(replacing).code, 0);
  const CallResult prepared = call({"data", "prepare", "--input", path("many.txt"), "--output_prefix",
                                    path("t"), "--tokenizer", path("tok")});
  EXPECT_EQ(prepared.code, 0) << prepared.err;
  EXPECT_THAT(inspect({path("t"), "--tokenizer", path("tok")}).out, HasSubstr("vocabulary of 320\n"));
}

struct Misuse {
  std::vector<std::string> arguments;
  std::string error;
};

class DataRejects : public testing::TestWithParam<Misuse> {};

TEST_P(DataRejects, WithItsReason) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "data");
  const CallResult result = call(arguments);
  EXPECT_EQ(result.code, kUserErrorExitCode);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("braid data " + GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Misuses, DataRejects,
    testing::Values(
        Misuse{{"prepare"}, "prepare: --input is missing"},
        Misuse{{"prepare", "--input", "x"}, "prepare: --output_prefix is missing"},
        Misuse{{"prepare", "--input", "x", "--output_prefix", "y"}, "prepare: --tokenizer is missing"},
        Misuse{{"prepare", "--input", "/nowhere/x", "--output_prefix", "/tmp/y", "--tokenizer", "byte"},
               "prepare: "},
        Misuse{{"prepare", "--input", "x", "--output_prefix", "y", "--tokenizer", "bite"}, "prepare: "},
        Misuse{{"prepare", "--input"}, "prepare: --input needs a value"},
        Misuse{{"prepare", "--workers", "0"}, "prepare: --workers must be a whole number, >= 1"},
        Misuse{{"prepare", "docs"}, "prepare: unexpected argument 'docs'"},
        Misuse{{"prepare", "--output-prefix", "x"},
               "prepare: --output-prefix: there is no such option; did you mean output_prefix?"},
        Misuse{{"tokenizer"}, "tokenizer: --input is missing"},
        Misuse{{"tokenizer", "--input", "x"}, "tokenizer: --output is missing"},
        Misuse{{"inspect"}, "inspect: expected one PREFIX, as in braid data inspect out/docs"},
        Misuse{{"inspect", "a", "b"}, "inspect: expected one PREFIX"},
        Misuse{{"inspect", "a", "--documents", "2"}, "inspect: --documents requires --tokenizer"},
        Misuse{{"inspect", "/nowhere/x"}, "inspect: "},
        Misuse{{"inspect", "a", "--bytes", "0"}, "inspect: --bytes must be"}));

}  // namespace
}  // namespace braid::cli
