#include "braid/data/index/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "braid/base/checked.h"
#include "braid/base/error.h"

namespace braid::data {

BatchReader::BatchReader(const TokenDataset& dataset, const BatchGeometry& geometry)
    : dataset_(&dataset), geometry_(geometry) {
  require<ConfigError>(geometry.microbatch_size >= 1, "the batch size per device must be >= 1, got ",
                       geometry.microbatch_size);
  require<ConfigError>(geometry.microbatches >= 1, "a step needs at least 1 microbatch, got ",
                       geometry.microbatches);
  require<ConfigError>(0 <= geometry.data_rank && geometry.data_rank < geometry.data_world, "data rank ",
                       geometry.data_rank, " is not in [0, ", geometry.data_world, ")");
}

int64_t BatchReader::samples_per_step() const {
  return checked_multiply(checked_multiply(geometry_.microbatch_size, geometry_.microbatches),
                          geometry_.data_world);
}

Batch BatchReader::microbatch_after(int64_t consumed_samples, int64_t microbatch) const {
  Batch batch = empty_batch(geometry_.microbatch_size);
  require<InternalError>(0 <= microbatch && microbatch < geometry_.microbatches, "microbatch ", microbatch,
                         " of ", geometry_.microbatches);
  const int64_t block = microbatch * geometry_.data_world + geometry_.data_rank;
  fill(consumed_samples + block * geometry_.microbatch_size, 0, batch);
  return batch;
}

Batch BatchReader::microbatch(int64_t step, int64_t microbatch) const {
  return microbatch_after(checked_multiply(step, samples_per_step()), microbatch);
}

Batch BatchReader::step_batch(int64_t step) const {
  Batch batch = empty_batch(geometry_.microbatches * geometry_.microbatch_size);
  const int64_t consumed_samples = checked_multiply(step, samples_per_step());
  for (int64_t m = 0; m < geometry_.microbatches; ++m) {
    const int64_t block = m * geometry_.data_world + geometry_.data_rank;
    fill(consumed_samples + block * geometry_.microbatch_size, m * geometry_.microbatch_size, batch);
  }
  return batch;
}

Batch BatchReader::empty_batch(int64_t samples) const {
  const auto options = at::TensorOptions().dtype(at::kLong);
  const int64_t length = dataset_->sequence_length();
  return {.tokens = at::empty({samples, length}, options),
          .labels = at::empty({samples, length}, options),
          .valid_labels = 0};
}

void BatchReader::fill(int64_t first, int64_t row, Batch& batch) const {
  const int64_t length = dataset_->sequence_length();
  std::vector<int64_t> sample(static_cast<size_t>(length) + 1);
  for (int64_t j = 0; j < geometry_.microbatch_size; ++j) {
    const bool is_padding = geometry_.beyond_end == BeyondEnd::kPadding && first + j >= dataset_->size();
    if (is_padding) std::ranges::fill(sample, 0);
    const int64_t valid = is_padding ? 0 : dataset_->sample(first + j, sample);
    int64_t* const tokens = batch.tokens.mutable_data_ptr<int64_t>() + (row + j) * length;
    int64_t* const labels = batch.labels.mutable_data_ptr<int64_t>() + (row + j) * length;
    std::copy_n(sample.begin(), length, tokens);
    std::copy_n(sample.begin() + 1, valid, labels);
    std::fill(labels + valid, labels + length, kIgnoredLabel);
    batch.valid_labels += valid;
  }
}

}  // namespace braid::data
