// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::data {

/// Turns text into token ids and back. Immutable: every method may be called from several threads at once.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// Number of ids: every id is in [0, vocabulary_size()).
  virtual int64_t vocabulary_size() const = 0;

  /// Ids of `text`, without any id for its begin or end. Invalid UTF-8 becomes U+FFFD except in the byte
  /// tokenizer.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;

  /// Text of `ids`; ids that mark the begin or end of a document give nothing.
  /// Throws DataError for an id outside the vocabulary, naming it and its place.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;

  /// The id that begins a document, where there is one.
  virtual std::optional<int64_t> bos_id() const = 0;

  /// The id that ends a document, where there is one.
  virtual std::optional<int64_t> eos_id() const = 0;

  /// What a user would call it, e.g. "byte" or "sentencepiece:data/tokenizer.model".
  virtual std::string name() const = 0;

  /// The file it was read from, where there is one.
  virtual std::optional<std::filesystem::path> file() const = 0;
};

/// The tokenizer that `spec` names:
///   byte                  ids 0 to 255 are the bytes, 256 ends a document; every text comes back exactly
///   sentencepiece:FILE    a SentencePiece model
///   FILE                  the same, for a name that ends in ".model"
///   DIR                   the same, for a directory that holds tokenizer.model
/// Throws ConfigError if `spec` is none of these or names a missing file, DataError if the file is no such
/// model.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view spec);

}  // namespace braid::data
