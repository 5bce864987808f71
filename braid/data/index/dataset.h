// Training samples from token files: splits, epochs, shuffling and mixing, in Megatron's order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/data/index/blend.h"
#include "braid/data/index/gpt_index.h"
#include "braid/data/index/indexed_file.h"
#include "braid/data/index/split.h"

namespace braid::data {

struct TokenDatasetOptions {
  int64_t sequence_length = 0;
  // Absent: one epoch of a single file; required for a mixture.
  std::optional<int64_t> samples = std::nullopt;
  int64_t seed = 0;
  LastSample last_sample = LastSample::kDrop;
  int64_t pad_token = 0;  // pads a short last sample
};

/// One part of a file or of a mixture of files, as numbered samples.
/// Each rank builds the whole index itself in memory, so that ranks agree without communication and no cache
/// file can be missing on a node, stale or incomplete. Const members are thread-safe.
class TokenDataset {
 public:
  /// Uses files[i] with weight weights[i]; `files` must outlive the dataset and not move. `split` is the
  /// user's text, for messages. Throws ConfigError, with the counts and the remedy, if the part of a file has
  /// no sequences or is too short for one sample, or if an option is out of range.
  TokenDataset(std::span<const IndexedReader> files, std::span<const double> weights, std::string_view split,
               Part part, const TokenDatasetOptions& options);

  /// Number of samples: at least the requested number (exactly that in a mixture).
  int64_t size() const { return blend_.size() > 0 ? blend_.size() : sources_.front().index.size(); }
  int64_t sequence_length() const { return options_.sequence_length; }
  Part part() const { return part_; }
  /// Tokens of the part, over all files, once each.
  int64_t part_tokens() const;

  /// Fills `tokens` (sequence_length() + 1 of them) with sample 0 <= `index` < size() and returns the number
  /// of valid labels: the tokens after the first, without padding. That is sequence_length() for all but a
  /// short last sample. Throws InternalError if `index` is out of range.
  int64_t sample(int64_t index, std::span<int64_t> tokens) const;

  /// One line per file: documents, tokens, epochs, samples.
  std::vector<std::string> describe() const;

 private:
  struct Source {
    const IndexedReader* file;
    double weight;
    SequenceRange range;
    GptIndex index;
  };

  Part part_;
  TokenDatasetOptions options_;
  std::vector<Source> sources_;
  Blend blend_;  // empty for a single file
};

/// The number of samples that PaddleNLP's run_pretrain requests from each part.
struct SampleCounts {
  int64_t train = 0;
  int64_t valid = 0;
  int64_t test = 0;
  bool operator==(const SampleCounts&) const = default;
};

struct RunLength {
  int64_t train_batch_size = 0;  // per data rank and microbatch
  int64_t eval_batch_size = 0;   // per data rank
  int64_t data_world = 1;        // data ranks: dp times sharding
  int64_t accumulation_steps = 1;
  int64_t max_steps = 0;
  int64_t eval_steps = 0;  // steps between validations; there is one more at the end
};

/// Batches of a validation and of the test, fixed by that script.
inline constexpr int64_t kEvalBatches = 10;
inline constexpr int64_t kTestBatches = 100;

/// train = train_batch_size * data_world * accumulation_steps * max_steps; valid = eval_batch_size *
/// data_world * kEvalBatches * (max_steps / eval_steps + 1); test = eval_batch_size * data_world *
/// kTestBatches. Throws ConfigError for numbers below 1 or products beyond 64 bits.
SampleCounts sample_counts(const RunLength& run);

struct DatasetsOptions {
  std::string input_dir;
  std::string split = "949,50,1";
  int64_t sequence_length = 0;
  int64_t seed = 0;
  // Absent: the part is not needed and may be empty.
  std::optional<int64_t> train_samples = std::nullopt;
  std::optional<int64_t> valid_samples = std::nullopt;
  std::optional<int64_t> test_samples = std::nullopt;
  // A validation part of a single file with at most this many tokens is read whole instead, once, its last
  // sample short. Not of a mixture, of which a whole would not have the weights.
  int64_t whole_valid_tokens = 0;
};

/// The files of --input_dir and the requested datasets. Movable: the datasets refer to the files, whose
/// addresses do not change.
class Datasets {
 public:
  /// Opens and checks all files, then indexes the requested parts. Throws ConfigError or DataError
  /// (parse_input, IndexedReader, TokenDataset).
  explicit Datasets(const DatasetsOptions& options);

  const TokenDataset* train() const { return get(train_); }
  const TokenDataset* valid() const { return get(valid_); }
  const TokenDataset* test() const { return get(test_); }
  std::span<const IndexedReader> files() const { return files_; }
  /// Whether valid() is the whole part, once.
  bool valid_is_whole() const { return valid_is_whole_; }

  /// check_token_ids and check_fingerprint for all files; call it before the first step on one rank per node.
  void check_vocabulary(int64_t vocabulary_size, int32_t threads = 1) const;

  /// A few lines for the log.
  std::vector<std::string> describe() const;

 private:
  static const TokenDataset* get(const std::optional<TokenDataset>& dataset) {
    return dataset ? &*dataset : nullptr;
  }

  std::vector<IndexedReader> files_;
  std::optional<TokenDataset> train_;
  std::optional<TokenDataset> valid_;
  std::optional<TokenDataset> test_;
  bool valid_is_whole_ = false;
};

}  // namespace braid::data
