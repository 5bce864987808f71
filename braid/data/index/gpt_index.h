// The tokens of training sample k: Megatron's three indices over one part of a file.
// Source: megatron/core/datasets/gpt_dataset.py and helpers.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace braid::data {

class NumpyRandom;

/// Handling of tokens at the end that do not fill a sample.
enum class LastSample : uint8_t { kDrop, kKeepShort };

struct GptIndexOptions {
  // Tokens per sample; one more is read for the last label.
  int64_t sequence_length = 0;
  // The documents are repeated in epochs until there are this many; absent: exactly one epoch.
  std::optional<int64_t> samples = std::nullopt;
  int64_t seed = 0;
  LastSample last_sample = LastSample::kDrop;
};

/// The beginning of a sample: `offset` tokens into the document at `position` of the document order.
struct SamplePosition {
  int64_t position = 0;
  int64_t offset = 0;
  bool operator==(const SamplePosition&) const = default;
};

/// Tokens [offset, offset + count) of a document.
struct Slice {
  int64_t document = 0;
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Slice&) const = default;
};

/// Built in memory on every rank from its arguments alone, in seconds for tens of millions of documents.
/// There are deliberately no cache files, which could be missing on a node, stale or incomplete.
class GptIndex {
 public:
  /// `lengths` are the documents' lengths in tokens. Memory used: 4 bytes per document and epoch, 16 per
  /// sample (20 from 2^32 - 2 samples). Throws DataError if there are no tokens, ConfigError if there are too
  /// many samples to hold in memory or the seed is out of range.
  GptIndex(std::span<const int32_t> lengths, const GptIndexOptions& options);

  /// Number of samples, at least the requested number. May be 0 if one epoch is too short for a sample.
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t epochs() const { return epochs_; }
  int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  /// Whether the last epoch was shuffled separately, because less than 80% of it is needed.
  bool has_separate_last_epoch() const { return has_separate_last_epoch_; }

  /// The documents of all epochs in reading order.
  std::span<const uint32_t> document_order() const { return documents_; }
  /// The beginning of unshuffled sample 0 <= i <= size().
  SamplePosition sample_begin(int64_t i) const {
    return {positions_[static_cast<size_t>(i)], offsets_[static_cast<size_t>(i)]};
  }
  /// The unshuffled sample that is read k-th.
  int64_t shuffled(int64_t k) const {
    return wide_shuffle_.empty() ? shuffle_[static_cast<size_t>(k)] : wide_shuffle_[static_cast<size_t>(k)];
  }

  /// Calls visit(Slice) for the slices whose concatenated tokens are the sample read k-th: sequence_length +
  /// 1 tokens, fewer only in a short last sample. length_of(document) is the document's length, as in the
  /// constructor.
  template <typename LengthOf, typename Visit>
  void for_each_slice(int64_t k, const LengthOf& length_of, const Visit& visit) const {
    const int64_t sample = shuffled(k);
    const SamplePosition begin = sample_begin(sample);
    const SamplePosition end = sample_begin(sample + 1);
    for (int64_t p = begin.position; p <= end.position; ++p) {
      const int64_t document = documents_[static_cast<size_t>(p)];
      const int64_t from = p == begin.position ? begin.offset : 0;
      // The next sample begins at this one's last token, which is the last label here and the first input
      // there.
      const int64_t to = p == end.position ? end.offset + 1 : static_cast<int64_t>(length_of(document));
      if (from < to) visit(Slice{document, from, to - from});
    }
  }

 private:
  void order_documents(int64_t documents, NumpyRandom& random);
  void build_samples(std::span<const int32_t> lengths, int64_t sequence_length, int64_t samples);
  void shuffle_samples(int64_t first_part, int64_t samples, NumpyRandom& random);

  int64_t epochs_ = 1;
  int64_t tokens_per_epoch_ = 0;
  bool has_separate_last_epoch_ = false;
  std::vector<uint32_t> documents_;
  std::vector<int64_t> positions_;
  std::vector<int32_t> offsets_;
  std::vector<uint32_t> shuffle_;
  std::vector<int64_t> wide_shuffle_;  // replaces shuffle_ from 2^32 - 2 samples
};

}  // namespace braid::data
