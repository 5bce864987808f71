// Which tokens make up training sample k: Megatron's three indices over one part of one file.
// Source: megatron/core/datasets/gpt_dataset.py and helpers.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace braid::data {

class NumpyRandom;

/// What becomes of the tokens at the end that do not fill a sample.
enum class LastSample : uint8_t { kDrop, kKeepShort };

struct GptIndexOptions {
  // Tokens per sample; one more is read, for the last label.
  int64_t sequence_length = 0;
  // The documents are repeated in epochs until there are so many; absent: exactly one epoch.
  std::optional<int64_t> samples = std::nullopt;
  int64_t seed = 0;
  LastSample last_sample = LastSample::kDrop;
};

/// Where a sample begins: so many tokens into the document at a position of the document order.
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

/// Built in memory on every rank, from nothing but its arguments, in seconds for tens of millions of
/// documents. There are no cache files on purpose: what is not shared between nodes cannot be missing on one
/// of them, stale, or half written.
class GptIndex {
 public:
  /// `lengths` are those of the documents, in tokens. Memory afterwards: 4 bytes a document and epoch, 16 a
  /// sample (20 from 2^32 - 2). Throws DataError if there are no tokens, ConfigError if the samples are too
  /// many to be held or the seed is out of range.
  GptIndex(std::span<const int32_t> lengths, const GptIndexOptions& options);

  /// Number of samples; at least the number wanted. May be 0 where one epoch is too short for a sample.
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t epochs() const { return epochs_; }
  int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  /// Whether the last epoch was shuffled apart from the others, because less than 80% of it is wanted.
  bool has_separate_last_epoch() const { return has_separate_last_epoch_; }

  /// The documents in reading order, all epochs.
  std::span<const uint32_t> document_order() const { return documents_; }
  /// Where unshuffled sample 0 <= i <= size() begins.
  SamplePosition sample_begin(int64_t i) const {
    return {positions_[static_cast<size_t>(i)], offsets_[static_cast<size_t>(i)]};
  }
  /// The unshuffled sample that is read k-th.
  int64_t shuffled(int64_t k) const {
    return wide_shuffle_.empty() ? shuffle_[static_cast<size_t>(k)] : wide_shuffle_[static_cast<size_t>(k)];
  }

  /// Calls visit(Slice) for the slices whose tokens, one after another, make up the sample read k-th:
  /// sequence_length + 1 tokens, fewer only in a short last one. length_of(document) gives a document's
  /// length, as in the constructor.
  template <typename LengthOf, typename Visit>
  void for_each_slice(int64_t k, const LengthOf& length_of, const Visit& visit) const {
    const int64_t sample = shuffled(k);
    const SamplePosition begin = sample_begin(sample);
    const SamplePosition end = sample_begin(sample + 1);
    for (int64_t p = begin.position; p <= end.position; ++p) {
      const int64_t document = documents_[static_cast<size_t>(p)];
      const int64_t from = p == begin.position ? begin.offset : 0;
      // The next sample begins at this one's last token: that one is the last label here and the first input
      // there.
      const int64_t to = p == end.position ? end.offset + 1 : static_cast<int64_t>(length_of(document));
      if (from < to) visit(Slice{document, from, to - from});
    }
  }

 private:
  void order_documents(int64_t documents, NumpyRandom& random);
  void cut_samples(std::span<const int32_t> lengths, int64_t sequence_length, int64_t samples);
  void shuffle_samples(int64_t first_part, int64_t samples, NumpyRandom& random);

  int64_t epochs_ = 1;
  int64_t tokens_per_epoch_ = 0;
  bool has_separate_last_epoch_ = false;
  std::vector<uint32_t> documents_;
  std::vector<int64_t> positions_;
  std::vector<int32_t> offsets_;
  std::vector<uint32_t> shuffle_;
  std::vector<int64_t> wide_shuffle_;  // in place of shuffle_ from 2^32 - 2 samples on
};

}  // namespace braid::data
