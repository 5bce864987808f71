// Assembly of samples into the tensors that a data rank trains on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/data/index/dataset.h"

namespace braid::data {

/// The label of padding, which does not contribute to the loss.
inline constexpr int64_t kIgnoredLabel = -100;

/// What BatchReader makes of samples beyond the dataset: an error, or padding without labels.
enum class BeyondEnd : uint8_t { kError, kPadding };

struct BatchGeometry {
  int64_t microbatch_size = 1;  // samples per data rank and microbatch
  int64_t microbatches = 1;     // per step
  int64_t data_rank = 0;        // sharding_degree * dp_rank + sharding_rank
  int64_t data_world = 1;
  BeyondEnd beyond_end = BeyondEnd::kError;
};

/// Next-token prediction: labels[i] is the token after tokens[i], or kIgnoredLabel beyond the end of a short
/// sample.
struct Batch {
  at::Tensor tokens;  // [b, s] int64, CPU
  at::Tensor labels;  // [b, s] int64, CPU
  int64_t valid_labels = 0;
};

/// Reads a dataset in order. A rank's data is a function of the number of samples consumed by all ranks
/// before the step, the microbatch and the geometry only: a resumed run continues at that number, even with
/// another geometry. Const members are thread-safe.
class BatchReader {
 public:
  /// `dataset` must outlive the reader. Throws ConfigError for an invalid geometry.
  BatchReader(const TokenDataset& dataset, const BatchGeometry& geometry);

  /// Samples consumed by all data ranks together in one step.
  int64_t samples_per_step() const;

  /// This rank's microbatch 0 <= `microbatch` < geometry.microbatches of the step that begins after
  /// `consumed_samples` samples. Its sample j is number consumed_samples + (microbatch * data_world +
  /// data_rank) * microbatch_size + j. Throws InternalError beyond the dataset,
  /// unless the geometry says otherwise.
  Batch microbatch_after(int64_t consumed_samples, int64_t microbatch) const;

  /// The microbatch of step 0, 1, ... of a run that started at sample 0 with this geometry.
  Batch microbatch(int64_t step, int64_t microbatch) const;

  /// All microbatches of the step on this rank, concatenated: [microbatches * microbatch_size, s].
  Batch step_batch(int64_t step) const;

 private:
  // Samples first, first + 1, ... into rows `row`, row + 1, ... of `batch`.
  void fill(int64_t first, int64_t row, Batch& batch) const;
  Batch empty_batch(int64_t samples) const;

  const TokenDataset* dataset_;
  BatchGeometry geometry_;
};

}  // namespace braid::data
