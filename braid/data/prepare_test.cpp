#include "braid/data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/random.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/data/test_files.h"
#include "braid/data/tokenizer/tokenizer.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

class Prepare : public testing::Test {
 protected:
  // Byte tokens of the file "corpus.jsonl" into out/tokens.
  PrepareOptions options() const {
    return {.text = {.inputs = {folder_.file("corpus.jsonl")}},
            .output_prefix = folder_.file("out/tokens"),
            .tokenizer = "byte"};
  }
  void write_corpus(const std::string& lines) { write_bytes(folder_.file("corpus.jsonl"), lines); }
  std::string output(const std::string& suffix) const {
    return read_bytes(folder_.file("out/tokens") + suffix);
  }
  std::vector<std::string> files_of_output() const {
    std::vector<std::string> names;
    if (!fs::exists(folder_.file("out"))) return names;
    for (const auto& entry : fs::directory_iterator(folder_.file("out")))
      names.push_back(entry.path().filename().string());
    return names;
  }
  ScratchDirectory folder_;
};

TEST_F(Prepare, WritesTheExpectedBytes) {
  write_corpus("{\"text\": \"ab\"}\n{\"text\": \"\"}\n{\"text\": \"c\"}\n");
  const auto summary = prepare(options());
  EXPECT_EQ(output(".bin"), std::string("a\0b\0\0\x01"
                                        "c\0\0\x01",
                                        10));
  EXPECT_EQ(output(".idx"), std::string("MMIDIDX\0\0"
                                        "\x01\0\0\0\0\0\0\0"  // version
                                        "\x08"                // uint16
                                        "\x02\0\0\0\0\0\0\0"  // sequences
                                        "\x03\0\0\0\0\0\0\0"  // document entries
                                        "\x03\0\0\0\x02\0\0\0"
                                        "\0\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0"
                                        "\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0",
                                        34 + 8 + 16 + 24));
  EXPECT_EQ(summary.documents, 2);
  EXPECT_EQ(summary.empty_documents, 1);
  EXPECT_EQ(summary.tokens, 5);
  EXPECT_EQ(summary.text_bytes, 3);
  EXPECT_EQ(summary.token_type, TokenType::kU16);
  EXPECT_EQ(summary.vocabulary_size, 257);
}

TEST_F(Prepare, TheEndOfADocumentIsOptional) {
  write_corpus("{\"text\": \"ab\"}\n");
  auto without = options();
  without.document_end = DocumentEnd::kNone;
  EXPECT_EQ(prepare(without).tokens, 2);
  EXPECT_EQ(output(".bin"), std::string("a\0b\0", 4));
}

TEST_F(Prepare, TheFilesDoNotDependOnTheNumberOfWorkers) {
  std::string lines;
  std::vector<std::string> texts;
  for (uint64_t document = 0; document < 3000; ++document) {
    // Lengths from 1 byte to more than a worker's batch, so that results finish out of order.
    const uint64_t length = document % 500 == 0 ? 400'000 : philox(3, document)[0] % 900 + 1;
    texts.emplace_back(length, static_cast<char>('a' + document % 26));
    lines += "{\"text\": \"" + texts.back() + "\"}\n";
  }
  write_corpus(lines);
  prepare(options());
  const std::string bin = output(".bin"), idx = output(".idx");
  for (const int32_t workers : {2, 3, 8}) {
    auto parallel = options();
    parallel.workers = workers;
    parallel.existing = Existing::kReplace;
    PrepareProgress last;
    prepare(parallel, [&](const PrepareProgress& progress) {
      EXPECT_GE(progress.done_bytes, last.done_bytes);
      EXPECT_GE(progress.documents, last.documents);
      last = progress;
    });
    EXPECT_TRUE(output(".bin") == bin) << workers << " workers";
    EXPECT_TRUE(output(".idx") == idx) << workers << " workers";
    EXPECT_EQ(last.documents, 3000);
    EXPECT_EQ(last.done_bytes, static_cast<int64_t>(lines.size()));
    EXPECT_EQ(last.total_bytes, static_cast<int64_t>(lines.size()));
  }
  const IndexedReader reader(folder_.file("out/tokens"));
  for (int64_t document = 0; document < 3000; document += 100) {
    EXPECT_EQ(make_tokenizer("byte")->decode(reader.sequence(document)),
              texts[static_cast<size_t>(document)]);
  }
}

TEST_F(Prepare, RejectsInvalidOptionsAndLeavesNoFiles) {
  write_corpus("{\"text\": \"ab\"}\n");
  const auto with = [this](auto change) {
    auto changed = options();
    change(changed);
    return [changed] { prepare(changed); };
  };
  EXPECT_THAT(with([](auto& o) { o.workers = 0; }), says<ConfigError>("workers must be >= 1, got 0"));
  EXPECT_THAT(with([](auto& o) { o.output_prefix = ""; }),
              says<ConfigError>("output_prefix must name files"));
  EXPECT_THAT(with([&](auto& o) { o.output_prefix = folder_.file(""); }),
              says<ConfigError>("output_prefix must name files"));
  EXPECT_THAT(with([&](auto& o) { o.output_prefix = folder_.file("corpus.jsonl/x"); }),
              says<OutputError>("cannot be created"));
  EXPECT_THAT(with([](auto& o) { o.tokenizer = "gpt2"; }), says<ConfigError>("tokenizer 'gpt2' is unknown"));
  EXPECT_THAT(with([](auto& o) { o.text.inputs = {"/none"}; }),
              says<ConfigError>("/none: no such file or directory"));
  EXPECT_TRUE(files_of_output().empty());
  prepare(options());
  EXPECT_THAT(with([](auto&) {}), says<ConfigError>("tokens.bin exists: choose another output_prefix"));
  fs::remove(folder_.file("out/tokens.bin"));
  EXPECT_THAT(with([](auto&) {}), says<ConfigError>("tokens.idx exists"));
  prepare([&] {
    auto replacing = options();
    replacing.existing = Existing::kReplace;
    replacing.output_prefix += ".bin";  // the same pair
    return replacing;
  }());
  EXPECT_THAT(files_of_output(), testing::UnorderedElementsAre("tokens.bin", "tokens.idx"));
}

TEST_F(Prepare, AnErrorDuringTheRunLeavesNoFiles) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "{\"text\": \"" + std::string(300, 'x') + "\"}\n";
  write_corpus(lines + "damaged\n");
  auto parallel = options();
  parallel.workers = 3;
  EXPECT_THAT([&] { prepare(parallel); }, says<DataError>("corpus.jsonl:5001: not a line of JSON"));
  EXPECT_TRUE(files_of_output().empty());
  write_corpus(lines);
  struct Stopped {};
  EXPECT_THROW(prepare(parallel, [](const PrepareProgress&) { throw Stopped(); }), Stopped);
  EXPECT_TRUE(files_of_output().empty());
  write_corpus("\n{\"text\": \"\"}\n");
  EXPECT_THAT([&] { prepare(options()); }, says<ConfigError>("has no text: 1 file read, 1 empty document"));
  EXPECT_TRUE(files_of_output().empty());
}

TEST(PrepareSummaryText, ListsWhatWasWrittenAndSkipped) {
  const PrepareSummary summary{.documents = 3,
                               .empty_documents = 1,
                               .tokens = 1000,
                               .text_bytes = 4096,
                               .text = {.files = 4, .binary = 2, .invalid_utf8 = 5},
                               .elapsed = std::chrono::seconds(2)};
  EXPECT_EQ(to_text(summary),
            "3 documents, 1000 tokens (uint16), 4.10 bytes per token\n"
            "4.00 KiB of text in 2.0 s, 2.00 KiB/s\n"
            "skipped: 2 binary\n"
            "skipped: 1 empty document\n"
            "not UTF-8: 5 places, replaced by U+FFFD\n");
}

}  // namespace
}  // namespace braid::data
