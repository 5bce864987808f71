// Conversion of text to token ids and back.
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

/// Converts text to token ids and back. Immutable and thread-safe.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// Number of ids: every id is in [0, vocabulary_size()).
  virtual int64_t vocabulary_size() const = 0;

  /// Ids of `text`, without ids for its beginning or end. Invalid UTF-8 becomes U+FFFD except in the byte
  /// tokenizer.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;

  /// Text of `ids`; ids that mark the beginning or end of a document decode to nothing. Throws DataError,
  /// with the id and its position, for an id outside the vocabulary.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;

  /// The id that begins a document, if there is one.
  virtual std::optional<int64_t> bos_id() const = 0;

  /// The id that ends a document, if there is one.
  virtual std::optional<int64_t> eos_id() const = 0;

  /// The bytes of text that each id stands for: 0 for ids that mark something. Their sum over encode(text) is
  /// the size of `text` plus bytes_before_text(), unless the tokenizer changes the text (NFKC, <unk>).
  virtual std::vector<int32_t> token_bytes() const = 0;

  /// 1 if encode() puts a space before a text, else 0.
  virtual int64_t bytes_before_text() const = 0;

  /// The name given by the user, such as "byte" or "sentencepiece:data/tokenizer.model".
  virtual std::string name() const = 0;

  /// The file it was read from, if there is one.
  virtual std::optional<std::filesystem::path> file() const = 0;
};

/// The tokenizer given by `spec`:
///   byte                  ids 0 to 255 are the bytes, 256 ends a document; every text round-trips exactly
///   sentencepiece:FILE    a SentencePiece model
///   FILE                  a SentencePiece model whose name ends in ".model"
///   DIR                   a directory with tokenizer.model, or an export with the byte tokenizer
/// Throws ConfigError if `spec` is none of these or the file does not exist, DataError if the file is not a
/// SentencePiece model.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view spec);

}  // namespace braid::data
