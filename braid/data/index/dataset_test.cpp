#include "braid/data/index/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"
#include "braid/data/test_hash.h"

namespace braid::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Dataset : public testing::Test {
 protected:
  // `documents` documents; document d has 3 + d % 5 tokens, all distinct across files.
  std::string write_file(const std::string& name, int64_t documents, int64_t first_token) {
    std::vector<std::vector<int64_t>> all;
    for (int64_t d = 0; d < documents; ++d) {
      std::vector<int64_t> document;
      for (int64_t i = 0; i < 3 + d % 5; ++i) document.push_back(first_token++);
      all.push_back(document);
    }
    const std::string prefix = folder_.file(name);
    write_documents(prefix, all, TokenType::kI32);
    return prefix;
  }

  template <typename Make>
  static std::string complaint(const Make& make) {
    try {
      make();
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }

  static std::vector<int64_t> sample(const TokenDataset& dataset, int64_t index) {
    std::vector<int64_t> tokens(static_cast<size_t>(dataset.sequence_length()) + 1);
    dataset.sample(index, tokens);
    return tokens;
  }

  ScratchDirectory folder_;
};

TEST_F(Dataset, SampleCountsEqualPaddleNlps) {
  EXPECT_EQ(sample_counts({.train_batch_size = 1,
                           .eval_batch_size = 2,
                           .data_world = 3,
                           .accumulation_steps = 16,
                           .max_steps = 20,
                           .eval_steps = 1000}),
            (SampleCounts{.train = 960, .valid = 60, .test = 600}));
  EXPECT_EQ(
      sample_counts({.train_batch_size = 4, .eval_batch_size = 1, .max_steps = 100, .eval_steps = 30}).valid,
      40);
  EXPECT_THROW(sample_counts({.train_batch_size = 1, .eval_batch_size = 1, .max_steps = 0, .eval_steps = 1}),
               ConfigError);
  EXPECT_THROW(sample_counts({.train_batch_size = int64_t{1} << 40,
                              .eval_batch_size = 1,
                              .max_steps = int64_t{1} << 40,
                              .eval_steps = 1}),
               ConfigError);
}

// Compares tokens one by one with the indices, which have their own golden values: the parts of the file, the
// order, the repeated epochs.
TEST_F(Dataset, SamplesAreTheTokensOfTheIndex) {
  write_file("a", 40, 1000);
  const Datasets datasets({.input_dir = folder_.file("a"),
                           .split = "8,1,1",
                           .sequence_length = 7,
                           .seed = 1234,
                           .train_samples = 50,
                           .valid_samples = 4,
                           .test_samples = 3});
  const IndexedReader& file = datasets.files()[0];
  const SequenceRange ranges[] = {{0, 32}, {32, 36}, {36, 40}};
  int part = 0;
  for (const TokenDataset* dataset : {datasets.train(), datasets.valid(), datasets.test()}) {
    ASSERT_NE(dataset, nullptr);
    const SequenceRange range = ranges[part];
    std::vector<int32_t> lengths;
    for (int64_t i = range.begin; i < range.end; ++i) lengths.push_back(file.sequence_length(i));
    const GptIndex index(lengths, {.sequence_length = 7,
                                   .samples = (std::vector<int64_t>{50, 4, 3})[static_cast<size_t>(part)],
                                   .seed = 1234});
    std::vector<int64_t> stream;
    for (const uint32_t d : index.document_order()) {
      const auto tokens = file.sequence(range.begin + d);
      stream.insert(stream.end(), tokens.begin(), tokens.end());
    }
    EXPECT_EQ(dataset->size(), index.size());
    for (int64_t k = 0; k < dataset->size(); ++k) {
      const int64_t begin = index.shuffled(k) * 7;
      ASSERT_EQ(sample(*dataset, k), (std::vector(stream.begin() + begin, stream.begin() + begin + 8))) << k;
    }
    ++part;
  }
}

// The same file, split and seed read by an independent Python transcription of Megatron's GPTDataset: all
// samples concatenated.
TEST_F(Dataset, TokensEqualMegatrons) {
  write_file("a", 40, 1000);
  const Datasets datasets({.input_dir = folder_.file("a"),
                           .split = "949,50,1",
                           .sequence_length = 9,
                           .seed = 1234,
                           .train_samples = 60,
                           .valid_samples = 10});
  EXPECT_EQ(datasets.test(), nullptr);
  for (const auto& [dataset, size, expected] :
       {std::tuple(datasets.train(), int64_t{62}, uint64_t{9436874766233333433ull}),
        std::tuple(datasets.valid(), int64_t{10}, uint64_t{16676387916655657604ull})}) {
    std::vector<int64_t> all;
    for (int64_t k = 0; k < dataset->size(); ++k) {
      const auto tokens = sample(*dataset, k);
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    EXPECT_EQ(dataset->size(), size);
    EXPECT_EQ(hash_of(all), expected) << name_of(dataset->part());
  }
}

TEST_F(Dataset, FilesAreMixedByWeight) {
  const std::string a = write_file("a", 50, 0);
  const std::string b = write_file("b", 50, 1000);
  const Datasets datasets({.input_dir = cat("3 ", a, " 1 ", b),
                           .split = "1",
                           .sequence_length = 5,
                           .seed = 7,
                           .train_samples = 200});
  const TokenDataset& mixed = *datasets.train();
  ASSERT_EQ(mixed.size(), 200);
  // Each file alone, with the samples that the mixture requests: ceil(0.75 * 200 * 1.005) and ceil(0.25 * 200
  // * 1.005).
  const Datasets only_a(
      {.input_dir = a, .split = "1", .sequence_length = 5, .seed = 7, .train_samples = 151});
  const Datasets only_b({.input_dir = b, .split = "1", .sequence_length = 5, .seed = 7, .train_samples = 51});
  const Blend blend = build_blend(std::vector<double>{0.75, 0.25}, 200);
  int64_t from_a = 0;
  for (int64_t k = 0; k < 200; ++k) {
    const auto i = static_cast<size_t>(k);
    const TokenDataset& one = blend.dataset[i] == 0 ? *only_a.train() : *only_b.train();
    ASSERT_EQ(sample(mixed, k), sample(one, blend.sample[i])) << k;
    from_a += blend.dataset[i] == 0 ? 1 : 0;
  }
  EXPECT_EQ(from_a, 150);
}

TEST_F(Dataset, ADirectoryIsAnEqualMixture) {
  write_file("a", 20, 0);
  write_file("b", 20, 1000);
  const Datasets datasets(
      {.input_dir = folder_.file(""), .split = "1", .sequence_length = 5, .train_samples = 30});
  int from_b = 0;
  for (int64_t k = 0; k < 30; ++k) from_b += sample(*datasets.train(), k)[0] >= 1000 ? 1 : 0;
  EXPECT_EQ(from_b, 15);
}

TEST_F(Dataset, ShortLastSamplesArePaddedAndCounted) {
  write_documents(folder_.file("short"), std::vector<std::vector<int64_t>>{{1, 2, 3, 4}, {5, 6, 7}});
  const std::vector<IndexedReader> files = [&] {
    std::vector<IndexedReader> list;
    list.emplace_back(folder_.file("short"));
    return list;
  }();
  const std::vector<double> weights = {1};
  const TokenDataset dataset(files, weights, "1", Part::kTrain,
                             {.sequence_length = 4, .last_sample = LastSample::kKeepShort, .pad_token = 99});
  ASSERT_EQ(dataset.size(), 2) << "6 labels, 4 per sample";
  int short_samples = 0;
  for (int64_t k = 0; k < 2; ++k) {
    std::vector<int64_t> tokens(5);
    const int64_t valid = dataset.sample(k, tokens);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 99), 4 - valid);
    if (valid == 4) continue;
    ++short_samples;
    EXPECT_EQ(valid, 2);
    EXPECT_EQ(tokens[3], 99);
    EXPECT_EQ(tokens[4], 99);
  }
  EXPECT_EQ(short_samples, 1);
  std::vector<int64_t> small(4);
  EXPECT_THROW(dataset.sample(0, small), InternalError);
  EXPECT_THROW(sample(dataset, 2), InternalError);
  EXPECT_THROW(sample(dataset, -1), InternalError);
}

TEST_F(Dataset, ASmallValidationPartOfOneFileIsWholeAndOnce) {
  const std::string a = write_file("a", 50, 0);
  write_file("b", 50, 1000);
  const auto open = [&](const std::string& input, int64_t whole_valid_tokens) {
    return Datasets({.input_dir = input,
                     .split = "80,20,0",
                     .sequence_length = 7,
                     .valid_samples = 1000,
                     .whole_valid_tokens = whole_valid_tokens});
  };
  const Datasets once = open(a, 1'000'000);
  ASSERT_TRUE(once.valid_is_whole());
  const int64_t tokens = once.valid()->part_tokens();
  int64_t part = 0;
  for (int64_t d = 40; d < 50; ++d) part += once.files().front().sequence_length(d);
  EXPECT_EQ(tokens, part);
  int64_t labels = 0;
  std::vector<int64_t> sample(8);
  for (int64_t i = 0; i < once.valid()->size(); ++i) labels += once.valid()->sample(i, sample);
  EXPECT_EQ(labels, tokens - 1) << "all but the first, which nothing predicts";

  EXPECT_TRUE(open(a, tokens).valid_is_whole());
  EXPECT_FALSE(open(a, tokens - 1).valid_is_whole());
  EXPECT_GE(open(a, tokens - 1).valid()->size(), 1000);
  EXPECT_FALSE(open("1 " + a + " 1 " + folder_.file("b"), 1'000'000).valid_is_whole())
      << "a mixture has weights";
}

TEST_F(Dataset, AnEmptyPartIsRejectedWithTheCounts) {
  write_file("a", 100, 0);
  const DatasetsOptions options{.input_dir = folder_.file("a"), .sequence_length = 4, .test_samples = 1};
  EXPECT_THAT(
      complaint([&] { Datasets{options}; }),
      AllOf(HasSubstr("split 949,50,1 leaves no document for test"), HasSubstr("the 100 documents of "),
            HasSubstr("train 95, valid 5, test 0"), HasSubstr("or omit --do_predict")));
  EXPECT_NO_THROW(Datasets(
      {.input_dir = folder_.file("a"), .sequence_length = 4, .train_samples = 1, .valid_samples = 1}));
}

TEST_F(Dataset, PartsWithoutTokensAreRejected) {
  write_documents(folder_.file("none"), std::vector<std::vector<int64_t>>{{}, {}});
  EXPECT_THAT(
      complaint([&] {
        Datasets({.input_dir = folder_.file("none"), .split = "1", .sequence_length = 4, .train_samples = 1});
      }),
      HasSubstr("no tokens in the 2 documents of train"));
  IndexedWriter(folder_.file("empty"), TokenType::kU16).finish();
  EXPECT_THAT(
      complaint([&] {
        Datasets(
            {.input_dir = folder_.file("empty"), .split = "1", .sequence_length = 4, .train_samples = 1});
      }),
      HasSubstr("leaves no document for train"));
  write_documents(folder_.file("tiny"), std::vector<std::vector<int64_t>>{{1, 2}});
  std::vector<IndexedReader> files;
  files.emplace_back(folder_.file("tiny"));
  EXPECT_THAT(
      complaint(
          [&] { TokenDataset(files, std::vector<double>{1}, "1", Part::kTrain, {.sequence_length = 2}); }),
      HasSubstr("only 2 tokens in the 1 document of train, too few for a sample of 2 and its last label"));
  const Datasets repeated(
      {.input_dir = folder_.file("tiny"), .split = "1", .sequence_length = 6, .train_samples = 3});
  EXPECT_THAT(sample(*repeated.train(), 0), ElementsAre(1, 2, 1, 2, 1, 2, 1)) << "small data is repeated";
}

TEST_F(Dataset, TokenIdsAreCheckedOverAllFiles) {
  write_file("a", 20, 0);
  write_file("b", 20, 1000);
  const Datasets datasets(
      {.input_dir = folder_.file(""), .split = "1", .sequence_length = 5, .train_samples = 30});
  EXPECT_NO_THROW(datasets.check_vocabulary(1100, 2));
  EXPECT_THROW(datasets.check_vocabulary(1000), DataError);
}

TEST_F(Dataset, DescribesItself) {
  const std::string a = write_file("a", 1000, 0);
  Datasets datasets({.input_dir = a, .sequence_length = 16, .train_samples = 500, .valid_samples = 10});
  const std::vector<std::string> expected = {
      "data: " + a + ": 1,000 documents, 5,000 tokens (int32)",
      "train: 949 documents, 4,743 tokens, 2 epochs, 592 samples of 16 from " + a,
      "valid: 50 documents, 250 tokens, 1 epoch, 15 samples of 16 from " + a};
  EXPECT_EQ(datasets.describe(), expected);
  const std::vector<int64_t> before = sample(*datasets.train(), 3);
  const Datasets moved = std::move(datasets);
  EXPECT_EQ(sample(*moved.train(), 3), before) << "the datasets keep their files";
}

}  // namespace
}  // namespace braid::data
