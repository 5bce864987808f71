// What a pair of token files holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/data/index/indexed_file.h"

namespace braid::data {

struct InspectOptions {
  std::string prefix{};                      // of the .bin and .idx
  std::optional<std::string> tokenizer{};    // as make_tokenizer takes it: checks ids and shows documents
  std::optional<int64_t> vocabulary_size{};  // checks the ids against this instead
  int64_t documents_shown = 3;
  int64_t bytes_shown = 300;  // of each shown document
  int32_t threads = 1;
};

/// How many documents have a length, in tokens, in [from, to].
struct LengthBucket {
  int64_t from = 0;
  int64_t to = 0;
  int64_t documents = 0;
  bool operator==(const LengthBucket&) const = default;
};

struct ShownDocument {
  int64_t document = 0;
  int64_t tokens = 0;
  std::string text{};
  bool whole = true;  // false where `text` is only its begin
};

struct Inspection {
  std::string prefix{};
  TokenType token_type = TokenType::kU16;
  int64_t sequences = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t shortest_tokens = 0;  // of a document; these four are 0 where there is none
  int64_t median_tokens = 0;    // the lower one of two
  int64_t longest_tokens = 0;
  double mean_tokens = 0;
  std::vector<LengthBucket> lengths{};  // by powers of two, from the first to the last with documents
  int64_t largest_token = -1;           // -1 without tokens
  std::optional<int64_t> vocabulary_size{};
  std::vector<ShownDocument> shown{};
};

/// Reads both files whole and checks them. Throws DataError naming file, offset and cure for damaged files
/// and for ids outside the vocabulary, ConfigError for options that cannot be honoured.
Inspection inspect(const InspectOptions& options);

/// The inspection for people, with a bar chart of lengths. Control characters of documents are shown as '?'.
std::string to_text(const Inspection& inspection);

}  // namespace braid::data
