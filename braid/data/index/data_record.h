// What is known of a pair of token files beside their tokens: <prefix>.meta.json, written by braid data
// prepare and tools/hf_tokenize.py. Files of other tools have none.
//
// The convention for the beginning of a document (docs/data.md): training sees what the files hold, and this
// record says whether that is a BOS id. An exported tokenizer and generation follow it: `add_bos_of`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::data {

/// What distinguishes a tokenizer from all others.
struct TokenizerIdentity {
  std::string kind{};         // "byte", "sentencepiece" (tokenizer.model) or "tokenizer.json"
  std::string fingerprint{};  // file_fingerprint of its file; empty for "byte"
  int64_t vocabulary_size = 0;
  std::optional<int64_t> bos_id{};
  std::optional<int64_t> eos_id{};
  bool operator==(const TokenizerIdentity&) const = default;
};

/// "byte", "sentencepiece sha256:1a2b3c4d5e6f (4096 ids)".
std::string to_text(const TokenizerIdentity& tokenizer);

/// Whether both are the same: kind and file. (What else they say follows from these.)
bool is_same(const TokenizerIdentity& a, const TokenizerIdentity& b);

struct DataRecord {
  TokenizerIdentity tokenizer{};
  bool add_bos = false;             // every document begins with tokenizer.bos_id
  std::optional<int64_t> eod_id{};  // every document ends with it
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;                 // of all documents, in UTF-8
  std::optional<int64_t> shuffle_seed{};  // of the documents' order; absent: that of the input
  std::string bin_fingerprint{};          // file_fingerprint of the .bin
  // Bytes of text that each id stands for, so that any tokens' bytes can be counted; empty if a document's
  // sum differs from its size, as where the tokenizer changes the text.
  std::vector<int32_t> token_bytes{};
  // That a document's sum exceeds its size by: 1 if the tokenizer puts a space before it.
  int64_t extra_bytes_per_document = 0;
  bool operator==(const DataRecord&) const = default;
};

/// <prefix>.meta.json.
std::string record_path(std::string_view prefix);

/// The record as JSON text.
std::string to_json(const DataRecord& record);

/// The record beside the token files, or nothing if there is none. Throws DataError, naming the file and the
/// key, if it cannot be read or is not a record of a known version.
std::optional<DataRecord> read_record(std::string_view prefix);

/// Whether documents begin with the BOS id in the token files that `input` (--input_dir) names: the value for
/// an exported tokenizer's add_bos_token, and for prompts. Nothing if none of them has a record. Throws what
/// parse_input and read_record do, and ConfigError if two files differ.
std::optional<bool> add_bos_of(std::string_view input);

}  // namespace braid::data
