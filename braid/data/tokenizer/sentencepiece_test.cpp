#include "braid/data/tokenizer/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "braid/base/error.h"
#include "braid/base/random.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/data/test_files.h"
#include "braid/data/tokenizer/tokenizer_train.h"

namespace braid::data {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;

template <typename Error>
auto says(const std::string& part) {
  return Throws<Error>(Property(&Error::what, HasSubstr(part)));
}

// Words of a small invented language, enough for several hundred merges.
std::vector<std::string> invented_lines(uint64_t count) {
  const std::vector<std::string> syllables = {"ba", "ke", "lo", "mi", "run", "the", "ing", "str", "é", "世"};
  std::vector<std::string> lines;
  for (uint64_t line = 0; line < count; ++line) {
    std::string text(size_t{2} * (philox(1, line)[0] % 3), ' ');
    for (uint64_t word = 0; word < 8; ++word) {
      const auto random = philox(2, 8 * line + word);
      text += (word == 0 ? "" : " ") + syllables[random[0] % 10] + syllables[random[1] % 10];
      if (random[2] % 3 == 0) text += syllables[random[3] % 10];
      if (random[2] % 7 == 0) text += std::to_string(random[3] % 1000) + ".";
    }
    lines.push_back(text);
  }
  return lines;
}

// Text with all difficult cases: runs of spaces and newlines, tabs, NUL, digits, arbitrary characters, and
// U+2581 itself.
std::string random_text(uint64_t seed) {
  const std::vector<std::string> parts = {" ",
                                          "  ",
                                          "    ",
                                          "\n",
                                          "\n\n",
                                          "\n \n",
                                          "\t",
                                          "\r\n",
                                          "12",
                                          "the",
                                          "run",
                                          "ing",
                                          "a",
                                          "<s>",
                                          "</s>",
                                          "<0x41>",
                                          "<unk>",
                                          "é",
                                          "世界",
                                          "🙂",
                                          "\xe2\x96\x81",
                                          std::string(1, '\0'),
                                          "\xef\xbf\xbd",
                                          "\xef\xbb\xbf",
                                          "e\xcc\x81",
                                          "\xe2\x96\x85"};
  std::string text;
  const uint64_t length = philox(seed, 0)[0] % 40;
  for (uint64_t i = 1; i <= length; ++i) text += parts[philox(seed, i)[0] % parts.size()];
  return text;
}

// One model for all tests, since training takes most of their time. Everything else here is const.
class SentencePiece : public testing::Test {
 protected:
  void SetUp() override {
    file_ = folder_.file("tokenizer.model");
    if (sentencepiece_available()) write_bytes(file_, train_bpe(invented_lines(400), {.pieces = 600}));
  }
  ScratchDirectory folder_;
  std::string file_;
};

TEST_F(SentencePiece, WithoutTheLibraryTheErrorNamesTheOption) {
  if (sentencepiece_available()) {
    EXPECT_EQ(make_tokenizer(file_)->vocabulary_size(), 600);
    return;
  }
  EXPECT_THAT([] { load_sentencepiece("x.model"); }, says<ConfigError>("BRAID_WITH_SENTENCEPIECE"));
  EXPECT_THAT([] { train_bpe({"text"}, {}); }, says<ConfigError>("BRAID_WITH_SENTENCEPIECE"));
}

TEST_F(SentencePiece, IdsHaveLlamasLayout) {
  if (!sentencepiece_available()) return;
  const auto tokenizer = make_tokenizer("sentencepiece:" + file_);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->name(), "sentencepiece:" + file_);
  EXPECT_EQ(tokenizer->file(), file_);
  EXPECT_EQ(tokenizer->encode("\n\n\n\t"), (std::vector<int64_t>{4, 3, 5}));
  EXPECT_EQ(tokenizer->encode(std::string(1, '\0')), (std::vector<int64_t>{6})) << "the first byte piece";
  EXPECT_EQ(tokenizer->encode("123").size(), 3u) << "digits stay single";
  EXPECT_EQ(tokenizer->encode(""), std::vector<int64_t>{});
  EXPECT_LE(tokenizer->encode("the running").size(), 6u) << "merges are learned";
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{1, 3, 2}), "\n") << "control ids decode to nothing";
}

TEST_F(SentencePiece, EveryTextRoundTripsAndTheWordCacheChangesNothing) {
  if (!sentencepiece_available()) return;
  const auto tokenizer = load_sentencepiece(file_);
  const auto whole = load_sentencepiece(file_, WordCache::kOff);
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = random_text(seed);
    const auto ids = tokenizer->encode(text);
    ASSERT_EQ(tokenizer->decode(ids), text) << "seed " << seed;
    ASSERT_EQ(ids, whole->encode(text)) << "seed " << seed << ": " << text;
  }
  for (const std::string& line : invented_lines(50))
    ASSERT_EQ(tokenizer->encode(line), whole->encode(line)) << line;
}

// Llama's own models prepend a space to the text. The bytes 18 00 are add_dummy_prefix = false in the file.
TEST_F(SentencePiece, TheWordCacheChangesNothingWithADummyPrefix) {
  if (!sentencepiece_available()) return;
  std::string model = read_bytes(file_);
  const std::string off("\x18\0\x20\0", 4);
  const size_t at = model.rfind(off);
  ASSERT_NE(at, std::string::npos);
  model[at + 1] = 1;
  write_bytes(file_, model);
  const auto tokenizer = load_sentencepiece(file_);
  const auto whole = load_sentencepiece(file_, WordCache::kOff);
  EXPECT_EQ(tokenizer->encode("the"), load_sentencepiece(file_)->encode("the"));
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = random_text(seed);
    ASSERT_EQ(tokenizer->encode(text), whole->encode(text)) << "seed " << seed << ": " << text;
    if (text.find("\xe2\x96\x81") == std::string::npos) {
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << "seed " << seed;
    }
  }
}

TEST_F(SentencePiece, InvalidUtf8BecomesTheReplacementCharacter) {
  if (!sentencepiece_available()) return;
  const auto tokenizer = load_sentencepiece(file_);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xff b")), "a\xef\xbf\xbd b");
}

TEST_F(SentencePiece, EncodesFromManyThreads) {
  if (!sentencepiece_available()) return;
  const auto tokenizer = load_sentencepiece(file_);
  const auto all = [&] {
    std::vector<std::vector<int64_t>> ids;
    for (uint64_t seed = 0; seed < 300; ++seed) ids.push_back(tokenizer->encode(random_text(seed)));
    return ids;
  };
  std::vector<std::future<std::vector<std::vector<int64_t>>>> results;
  for (int i = 0; i < 4; ++i) results.push_back(std::async(std::launch::async, all));
  for (auto& result : results) EXPECT_EQ(result.get(), all());
}

TEST_F(SentencePiece, BadFilesAndIdsAreNamed) {
  if (!sentencepiece_available()) return;
  EXPECT_THAT([&] { make_tokenizer(folder_.file("none.model")); },
              says<ConfigError>("none.model: no such file"));
  EXPECT_THAT([&] { make_tokenizer("sentencepiece:" + folder_.file("x")); },
              says<ConfigError>("no such file"));
  write_bytes(folder_.file("bad.model"), "\x0a\x02zzzzzzzzz");
  EXPECT_THAT([&] { make_tokenizer(folder_.file("bad.model")); },
              says<DataError>("is not a SentencePiece model"));
  write_bytes(folder_.file("empty.model"), "");
  EXPECT_THAT([&] { make_tokenizer(folder_.file("empty.model")); }, Throws<DataError>());
  const std::string model = read_bytes(file_);
  write_bytes(folder_.file("short.model"), model.substr(0, model.size() / 2));
  EXPECT_THAT([&] { make_tokenizer(folder_.file("short.model")); },
              says<DataError>("is not a SentencePiece model"));
  const auto tokenizer = make_tokenizer(folder_.file(""));
  EXPECT_THAT(
      [&] {
        tokenizer->decode(std::vector<int64_t>{7, 600});
      },
      says<DataError>("token 1 has id 600"));
}

TEST_F(SentencePiece, TrainingRejectsInvalidOptions) {
  if (!sentencepiece_available()) return;
  EXPECT_THAT([] { train_bpe({"too little"}, {}); },
              says<ConfigError>("too short for 4096 pieces: it supports at most "));
  EXPECT_THAT([] { train_bpe({}, {}); }, says<ConfigError>("no text to train"));
  EXPECT_THAT([] { train_bpe({"x"}, {.pieces = 100}); }, says<ConfigError>("at least 320 pieces"));
  EXPECT_THAT([] { train_bpe({"x"}, {.pieces = 600, .threads = 0}); },
              says<ConfigError>("at least 1 thread"));
  std::vector<std::string> many;  // more characters than pieces
  for (int c = 0; c < 500; ++c) {
    many.push_back({'\xe4', static_cast<char>(0xb8 + c / 64), static_cast<char>(0x80 + c % 64)});
  }
  EXPECT_THAT([&] { train_bpe(many, {.pieces = 400}); }, says<ConfigError>("cannot be trained"));
}

TEST_F(SentencePiece, TrainsFromFilesSilentlyAndDeterministically) {
  if (!sentencepiece_available()) return;
  std::string text;
  for (const std::string& line : invented_lines(400)) text += line + "\n";
  write_bytes(folder_.file("corpus.txt"), text);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  std::vector<TrainTokenizerProgress::Phase> phases;
  const TrainTokenizerOptions options{.text = {.inputs = {folder_.file("corpus.txt")}, .extensions = {}},
                                      .output = folder_.file("a/b"),
                                      .pieces = 600};
  const auto summary =
      train_sentencepiece(options, [&](const TrainTokenizerProgress& p) { phases.push_back(p.phase); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(summary.file, folder_.file("a/b/tokenizer.model"));
  EXPECT_EQ(summary.pieces, 600);
  EXPECT_EQ(summary.documents, 1);
  EXPECT_EQ(summary.text_bytes, static_cast<int64_t>(text.size()));
  using enum TrainTokenizerProgress::Phase;
  EXPECT_EQ(phases, (std::vector{kReading, kTraining}));
  EXPECT_EQ(read_bytes(summary.file), read_bytes(file_))
      << "the lines of the file equal those of the fixture";
  EXPECT_THAT(to_text(summary), HasSubstr("tokenizer.model: 600 pieces, trained on "));
  write_bytes(folder_.file("file"), "");
  TrainTokenizerOptions unwritable = options;
  unwritable.output = folder_.file("file/x.model");
  EXPECT_THAT([&] { train_sentencepiece(unwritable); }, says<OutputError>("cannot be created"));
}

std::vector<std::string> sampled(const std::string& path, int64_t bytes) {
  TextSource source({.inputs = {path}, .extensions = {}});
  return sample_lines(source, bytes, [](int64_t) {});
}

TEST(SampleLines, SplitsLinesWhereNoPieceCrosses) {
  const ScratchDirectory folder;
  write_bytes(folder.file("a"),
              "one\ttwo\r\n\n three \xe2\x96\x81 four" + std::string("\n") + std::string(9000, 'x'));
  const auto lines = sampled(folder.file("a"), 100'000);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "one");
  EXPECT_EQ(lines[1], "two");
  EXPECT_EQ(lines[2], " three ");
  EXPECT_EQ(lines[3], " four");
  EXPECT_EQ(lines[4].size() + lines[5].size() + lines[6].size(), 9000u);
}

TEST(SampleLines, SpreadsOverTheWholeTextWithinTheSize) {
  const ScratchDirectory folder;
  std::string text;
  for (int line = 0; line < 100'000; ++line) text += cat("line number ", line, " of the text\n");
  write_bytes(folder.file("a"), text);
  for (const int64_t wanted : {50'000, 300'000, 2'000'000}) {
    const auto lines = sampled(folder.file("a"), wanted);
    EXPECT_EQ(lines, sampled(folder.file("a"), wanted));
    int64_t bytes = 0;
    std::vector<int64_t> tenths(10);
    for (const std::string& line : lines) {
      bytes += static_cast<int64_t>(line.size()) + 1;
      ++tenths[static_cast<size_t>(parse_int(split(line, ' ')[2]).value() / 10'000)];
    }
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(wanted), 0.1 * static_cast<double>(wanted));
    for (const int64_t tenth : tenths) {
      // Blocks of 4096 bytes have fewer than 150 of these lines; one too many or too few at each end.
      EXPECT_NEAR(static_cast<double>(tenth), static_cast<double>(lines.size()) / 10, 300);
    }
  }
  EXPECT_EQ(sampled(folder.file("a"), 100'000'000).size(), 100'000u)
      << "all lines if they are fewer than requested";
}

}  // namespace
}  // namespace braid::data
