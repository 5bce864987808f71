// Single passes over all tokens of a file at memory bandwidth.
#include <algorithm>
#include <limits>
#include <optional>
#include <thread>
#include <type_traits>

#include "braid/base/error.h"
#include "braid/data/index/indexed_file.h"
#include "braid/data/index/token_dispatch.h"

namespace braid::data {
namespace {

// Small enough to stay in the cache if a block must be searched again.
constexpr int64_t kBlockTokens = 1 << 15;

// The tokens of the .bin, which the mapping aligns to a page.
template <typename T>
std::span<const T> tokens_of(const IndexedReader& reader) {
  const auto bytes = reader.bin_bytes();
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// results[k] = body(begin, end) for the k-th of `threads` consecutive ranges of [0, count).
template <typename Result, typename Body>
std::vector<Result> over_ranges(int64_t count, int32_t threads, const Body& body) {
  const int64_t workers = std::clamp<int64_t>(threads, 1, count / kBlockTokens + 1);
  std::vector<Result> results(static_cast<size_t>(workers));
  const auto run = [&](int64_t k) {
    results[static_cast<size_t>(k)] =
        body(count / workers * k, k + 1 == workers ? count : count / workers * (k + 1));
  };
  {
    std::vector<std::jthread> others;  // joined also if one cannot be started
    for (int64_t k = 1; k < workers; ++k) others.emplace_back(run, k);
    run(0);
  }
  return results;
}

// The first position in [begin, end) whose token, read as unsigned, is >= `limit`. Negative ids read as large
// ones.
template <typename U>
std::optional<int64_t> first_at_least(std::span<const U> tokens, int64_t begin, int64_t end, U limit) {
  for (int64_t block = begin; block < end; block += kBlockTokens) {
    const auto part =
        tokens.subspan(static_cast<size_t>(block), static_cast<size_t>(std::min(kBlockTokens, end - block)));
    U largest = 0;
    for (const U token : part) largest = std::max(largest, token);
    if (largest < limit) continue;
    const auto found = std::find_if(part.begin(), part.end(), [=](U token) { return token >= limit; });
    return block + (found - part.begin());
  }
  return std::nullopt;
}

std::optional<int64_t> first_bad_token(const IndexedReader& reader, int64_t vocabulary_size,
                                       int32_t threads) {
  // Ids above `largest` are never valid; this also catches negative ids if the vocabulary exceeds a signed
  // type.
  const auto largest = static_cast<uint64_t>(limits_of(reader.token_type()).largest);
  const uint64_t limit = std::min(static_cast<uint64_t>(vocabulary_size), largest + 1);
  return dispatch(reader.token_type(), [&]<typename T>(T) -> std::optional<int64_t> {
    using U = std::make_unsigned_t<T>;
    if (limit > std::numeric_limits<U>::max()) return std::nullopt;
    const auto tokens = tokens_of<U>(reader);
    const auto found =
        over_ranges<std::optional<int64_t>>(reader.token_count(), threads, [&](int64_t begin, int64_t end) {
          return first_at_least(tokens, begin, end, static_cast<U>(limit));
        });
    const auto first =
        std::find_if(found.begin(), found.end(), [](const auto& at) { return at.has_value(); });
    return first == found.end() ? std::nullopt : *first;
  });
}

// The sequence that contains byte `offset` of the .bin.
int64_t sequence_at(const IndexedReader& reader, int64_t offset) {
  int64_t low = 0;
  int64_t high = reader.sequence_count();
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (reader.sequence_offset_bytes(middle) <= offset ? low : high) = middle;
  }
  return low;
}

}  // namespace

int64_t find_max_token(const IndexedReader& reader, int32_t threads) {
  const int64_t largest = limits_of(reader.token_type()).largest;
  return dispatch(reader.token_type(), [&]<typename T>(T) -> int64_t {
    const auto tokens = tokens_of<T>(reader);
    if (tokens.empty()) return -1;
    const auto maxima = over_ranges<T>(reader.token_count(), threads, [&](int64_t begin, int64_t end) {
      T result = std::numeric_limits<T>::min();
      for (int64_t i = begin; i < end; ++i) result = std::max(result, tokens[static_cast<size_t>(i)]);
      return result;
    });
    const T result = *std::max_element(maxima.begin(), maxima.end());
    // Only uint64 can exceed int64.
    if constexpr (std::is_same_v<T, uint64_t>) {
      return static_cast<int64_t>(std::min(result, static_cast<uint64_t>(largest)));
    } else {
      return result;
    }
  });
}

void check_token_ids(const IndexedReader& reader, int64_t vocabulary_size, int32_t threads) {
  require<InternalError>(vocabulary_size >= 1, "a vocabulary of ", vocabulary_size, " token ids");
  const auto at = first_bad_token(reader, vocabulary_size, threads);
  if (!at) return;
  const int64_t offset = *at * bytes_of(reader.token_type());
  const int64_t sequence = sequence_at(reader, offset);
  int64_t token = 0;
  reader.read(sequence, (offset - reader.sequence_offset_bytes(sequence)) / bytes_of(reader.token_type()), 1,
              &token);
  throw DataError(
      cat(reader.bin_path(), ", byte ", offset, " (sequence ", sequence, "): token id ", token,
          " is outside the vocabulary of ", vocabulary_size, " (0 to ", vocabulary_size - 1,
          "); train with the tokenizer that created this file, or raise vocab_size to fit its largest id, ",
          find_max_token(reader, threads)));
}

}  // namespace braid::data
