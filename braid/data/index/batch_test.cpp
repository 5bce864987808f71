#include "braid/data/index/batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/data/test_files.h"

namespace braid::data {
namespace {

class Batches : public testing::Test {
 protected:
  Batches() {
    std::vector<std::vector<int64_t>> documents;
    for (int64_t d = 0; d < 60; ++d) {
      std::vector<int64_t> document;
      for (int64_t i = 0; i < 4 + d % 3; ++i) document.push_back(100 * d + i);
      documents.push_back(document);
    }
    write_documents(folder_.file("data"), documents);
    files_.emplace_back(folder_.file("data"));
  }

  TokenDataset dataset(const TokenDatasetOptions& options) const {
    return TokenDataset(files_, std::vector<double>{1}, "1", Part::kTrain, options);
  }

  ScratchDirectory folder_;
  std::vector<IndexedReader> files_;
};

TEST_F(Batches, LabelsAreTheNextTokens) {
  const TokenDataset data = dataset({.sequence_length = 5, .samples = 40, .seed = 1});
  const BatchReader reader(data, {.microbatch_size = 3});
  const Batch batch = reader.microbatch(2, 0);
  ASSERT_EQ(batch.tokens.sizes(), (std::vector<int64_t>{3, 5}));
  ASSERT_EQ(batch.labels.sizes(), batch.tokens.sizes());
  EXPECT_EQ(batch.tokens.scalar_type(), at::kLong);
  EXPECT_EQ(batch.labels.scalar_type(), at::kLong);
  EXPECT_EQ(batch.valid_labels, 15);
  for (int64_t j = 0; j < 3; ++j) {
    std::vector<int64_t> expected(6);
    data.sample(6 + j, expected);
    const at::Tensor whole = at::tensor(expected, at::kLong);
    EXPECT_TRUE(at::equal(batch.tokens[j], whole.slice(0, 0, 5)));
    EXPECT_TRUE(at::equal(batch.labels[j], whole.slice(0, 1, 6)));
  }
}

TEST_F(Batches, DataRanksTogetherReadEverySampleInOrder) {
  const TokenDataset data = dataset({.sequence_length = 5, .samples = 48, .seed = 1});
  const BatchReader alone(data, {.microbatch_size = 24});
  const at::Tensor all = at::cat({alone.microbatch(0, 0).tokens, alone.microbatch(1, 0).tokens});
  // 2 steps of 3 microbatches on 4 ranks with 2 samples each.
  std::vector<at::Tensor> read;
  for (int64_t step = 0; step < 2; ++step) {
    for (int64_t m = 0; m < 3; ++m) {
      for (int64_t rank = 0; rank < 4; ++rank) {
        const BatchReader reader(
            data, {.microbatch_size = 2, .microbatches = 3, .data_rank = rank, .data_world = 4});
        EXPECT_EQ(reader.samples_per_step(), 24);
        read.push_back(reader.microbatch(step, m).tokens);
      }
    }
  }
  EXPECT_TRUE(at::equal(at::cat(read), all));
}

TEST_F(Batches, OrderIsAFunctionOfConsumedSamples) {
  const TokenDataset data = dataset({.sequence_length = 5, .samples = 48, .seed = 1});
  const BatchReader before(data, {.microbatch_size = 2, .microbatches = 2});
  const BatchReader after(data, {.microbatch_size = 1, .microbatches = 4});
  EXPECT_TRUE(at::equal(after.microbatch_after(12, 3).tokens[0], before.microbatch(3, 1).tokens[1]));
  EXPECT_TRUE(at::equal(after.step_batch(3).tokens, before.step_batch(3).tokens));
}

TEST_F(Batches, AStepConcatenatesItsMicrobatches) {
  const TokenDataset data = dataset({.sequence_length = 5, .samples = 48, .seed = 1});
  const BatchReader reader(data, {.microbatch_size = 2, .microbatches = 3, .data_rank = 1, .data_world = 2});
  const Batch step = reader.step_batch(1);
  EXPECT_EQ(step.valid_labels, 30);
  for (int64_t m = 0; m < 3; ++m) {
    const Batch part = reader.microbatch(1, m);
    EXPECT_TRUE(at::equal(step.tokens.slice(0, 2 * m, 2 * m + 2), part.tokens));
    EXPECT_TRUE(at::equal(step.labels.slice(0, 2 * m, 2 * m + 2), part.labels));
  }
}

TEST_F(Batches, PaddingHasIgnoredLabels) {
  const TokenDataset data =
      dataset({.sequence_length = 22, .last_sample = LastSample::kKeepShort, .pad_token = 7});
  ASSERT_EQ(data.size(), 14) << "300 tokens, hence 299 labels: 13 times 22, plus 13";
  const BatchReader reader(data, {.microbatch_size = 14});
  const Batch batch = reader.microbatch(0, 0);
  EXPECT_EQ(batch.valid_labels, 299);
  EXPECT_EQ(batch.labels.ne(kIgnoredLabel).sum().item<int64_t>(), 299);
}

TEST_F(Batches, RejectsInvalidGeometriesAndSteps) {
  const TokenDataset data = dataset({.sequence_length = 5, .samples = 4, .seed = 1});
  EXPECT_THROW(BatchReader(data, {.microbatch_size = 0}), ConfigError);
  EXPECT_THROW(BatchReader(data, {.microbatches = 0}), ConfigError);
  EXPECT_THROW(BatchReader(data, {.data_rank = 1}), ConfigError);
  EXPECT_THROW(BatchReader(data, {.data_rank = -1}), ConfigError);
  const BatchReader reader(data, {.microbatch_size = 2});
  EXPECT_THROW(reader.microbatch(0, 1), InternalError);
  EXPECT_THROW(reader.microbatch(1000, 0), InternalError);
  EXPECT_THROW(reader.microbatch(-1, 0), InternalError);
}

TEST_F(Batches, BeyondTheEndIsAnErrorOrPadding) {
  const TokenDataset data = dataset({.sequence_length = 5, .samples = std::nullopt, .seed = 1});
  const int64_t size = data.size();
  EXPECT_THROW(BatchReader(data, {.microbatch_size = 2}).microbatch_after(size - 1, 0), InternalError);
  const BatchReader padding(data, {.microbatch_size = 2, .beyond_end = BeyondEnd::kPadding});
  const Batch last = padding.microbatch_after(size - 1, 0);
  EXPECT_EQ(last.valid_labels, 5);
  EXPECT_EQ(last.labels[1].eq(kIgnoredLabel).sum().item<int64_t>(), 5);
  EXPECT_EQ(last.tokens[1].abs().sum().item<int64_t>(), 0) << "a token id that every vocabulary has";
  EXPECT_EQ(padding.microbatch_after(size + 10, 0).valid_labels, 0);
}

}  // namespace
}  // namespace braid::data
