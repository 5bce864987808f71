#include "braid/data/index/gpt_index.h"

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/data/index/numpy_random.h"

namespace braid::data {
namespace {

// Far above any data set (2^36 document entries are 256 GiB), far below overflow.
constexpr int64_t kMostEntries = int64_t{1} << 36;

constexpr size_t kPrefetch = 16;

int64_t total_of(std::span<const int32_t> lengths) {
  int64_t total = 0;
  for (const int32_t length : lengths) total += length;
  return total;
}

// The smallest number of epochs with enough tokens for `samples` samples and the label after the last token.
int64_t epochs_for(int64_t samples, int64_t sequence_length, int64_t tokens_per_epoch) {
  int64_t wanted = 0;
  const bool overflows =
      __builtin_mul_overflow(samples, sequence_length, &wanted) || __builtin_add_overflow(wanted, 1, &wanted);
  require<ConfigError>(!overflows && samples <= kMostEntries, samples, " samples of ", sequence_length,
                       " tokens are more than can be indexed; lower max_steps or the batch size");
  return wanted <= tokens_per_epoch ? 1 : (wanted - 1) / tokens_per_epoch + 1;
}

}  // namespace

GptIndex::GptIndex(std::span<const int32_t> lengths, const GptIndexOptions& options) {
  const int64_t sequence_length = options.sequence_length;
  require<ConfigError>(sequence_length >= 1, "a sample needs at least 1 token, got ", sequence_length);
  require<ConfigError>(!options.samples || *options.samples >= 1, "the number of samples must be >= 1, got ",
                       options.samples.value_or(0));
  require<ConfigError>(
      lengths.size() <= std::numeric_limits<uint32_t>::max(), lengths.size(),
      " sequences in one file are more than can be indexed; prepare the text as several files");
  tokens_per_epoch_ = total_of(lengths);
  require<DataError>(tokens_per_epoch_ > 0, "there are no tokens in the ",
                     counted(std::ssize(lengths), "document"));
  const auto documents = static_cast<int64_t>(lengths.size());

  if (options.samples) {
    epochs_ = epochs_for(*options.samples, sequence_length, tokens_per_epoch_);
    require<ConfigError>(epochs_ <= kMostEntries / documents, *options.samples, " samples need ", epochs_,
                         " epochs of ", counted(documents, "document"),
                         ", more than can be indexed; use more data or lower max_steps");
  }
  // Samples without tokens of the last epoch.
  const int64_t before_last_epoch =
      epochs_ == 1 ? 0 : ((epochs_ - 1) * tokens_per_epoch_ - 1) / sequence_length;
  if (epochs_ > 1) {
    const int64_t per_epoch = (tokens_per_epoch_ - 1) / sequence_length;
    has_separate_last_epoch_ =
        *options.samples - before_last_epoch < static_cast<int64_t>(0.80 * static_cast<double>(per_epoch));
  }
  const int64_t labels = epochs_ * tokens_per_epoch_ - 1;
  const bool has_short = options.last_sample == LastSample::kKeepShort && labels % sequence_length != 0;
  const int64_t samples = labels / sequence_length + (has_short ? 1 : 0);

  NumpyRandom random(options.seed);
  try {
    order_documents(documents, random);
    build_samples(lengths, sequence_length, samples);
    shuffle_samples(has_separate_last_epoch_ ? before_last_epoch : samples, samples, random);
  } catch (const std::bad_alloc&) {
    throw ConfigError(cat("the index of ", counted(samples, "sample"), " over ", counted(epochs_, "epoch"),
                          " of ", counted(documents, "document"),
                          " does not fit in memory; lower max_steps or the batch size"));
  }
}

void GptIndex::order_documents(int64_t documents, NumpyRandom& random) {
  documents_.resize(static_cast<size_t>(epochs_ * documents));
  for (size_t begin = 0; begin < documents_.size(); begin += static_cast<size_t>(documents)) {
    std::iota(documents_.begin() + static_cast<int64_t>(begin),
              documents_.begin() + static_cast<int64_t>(begin) + documents, 0u);
  }
  const std::span<uint32_t> all(documents_);
  const size_t last = has_separate_last_epoch_ ? static_cast<size_t>(documents) : 0;
  random.shuffle(all.first(all.size() - last));
  random.shuffle(all.last(last));
}

void GptIndex::build_samples(std::span<const int32_t> lengths, int64_t sequence_length, int64_t samples) {
  positions_.reserve(static_cast<size_t>(samples) + 1);
  offsets_.reserve(static_cast<size_t>(samples) + 1);
  size_t position = 0;
  int64_t offset = 0;
  positions_.push_back(0);
  offsets_.push_back(0);
  while (size() < samples) {
    // A sample's last token is the next sample's first, so advance by sequence_length + 1 and step back one.
    int64_t needed = sequence_length + 1;
    int64_t available = lengths[documents_[position]] - offset;
    while (needed > available && position + 1 < documents_.size()) {
      needed -= available;
      offset = 0;
      available = lengths[documents_[++position]];
      // Lengths are accessed in random order; without the prefetch nearly every access would be a cache miss.
      if (position + kPrefetch < documents_.size())
        __builtin_prefetch(&lengths[documents_[position + kPrefetch]]);
    }
    offset += std::min(needed, available) - 1;  // `needed` exceeds `available` only in a short last sample
    positions_.push_back(static_cast<int64_t>(position));
    offsets_.push_back(static_cast<int32_t>(offset));
  }
}

void GptIndex::shuffle_samples(int64_t first_part, int64_t samples, NumpyRandom& random) {
  const auto fill_and_shuffle = [&]<typename T>(std::vector<T>& values) {
    values.resize(static_cast<size_t>(samples));
    std::iota(values.begin(), values.end(), T{0});
    const std::span<T> all(values);
    random.shuffle(all.first(static_cast<size_t>(first_part)));
    random.shuffle(all.subspan(static_cast<size_t>(first_part)));
  };
  if (samples < int64_t{std::numeric_limits<uint32_t>::max()} - 1) {
    fill_and_shuffle(shuffle_);
  } else {
    fill_and_shuffle(wide_shuffle_);
  }
}

}  // namespace braid::data
