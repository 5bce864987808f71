// Statistics and samples of a pair of token files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/data/index/indexed_file.h"

namespace braid::data {

struct InspectOptions {
  std::string prefix{};                      // of the .bin and .idx
  std::optional<std::string> tokenizer{};    // for make_tokenizer: checks ids and shows documents
  std::optional<int64_t> vocabulary_size{};  // checks the ids against this size instead
  int64_t documents_shown = 3;
  int64_t bytes_shown = 300;  // of each shown document
  int32_t threads = 1;
};

/// The number of documents with a length in [from, to] tokens.
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
  bool whole = true;  // false if `text` is only the beginning
};

struct Inspection {
  std::string prefix{};
  TokenType token_type = TokenType::kU16;
  int64_t sequences = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t shortest_tokens = 0;  // of a document; these four are 0 without documents
  int64_t median_tokens = 0;    // the lower of two
  int64_t longest_tokens = 0;
  double mean_tokens = 0;
  std::vector<LengthBucket> lengths{};  // by powers of two, from the first to the last non-empty bucket
  int64_t largest_token = -1;           // -1 without tokens
  std::optional<int64_t> vocabulary_size{};
  std::optional<DataRecord> record{};
  std::vector<ShownDocument> shown{};
};

/// Reads and checks the files completely. Throws DataError with file, offset and remedy for damaged files,
/// for a .bin that is not the one of which the record tells, and for ids outside the vocabulary, ConfigError
/// for invalid options and for another tokenizer than the one that made the files.
Inspection inspect(const InspectOptions& options);

/// The inspection as readable text, with a bar chart of lengths. Control characters are shown as '?'.
std::string to_text(const Inspection& inspection);

}  // namespace braid::data
