// Megatron's token files: <prefix>.bin has the tokens without gaps, <prefix>.idx the lengths, offsets and
// documents. Source of the format: megatron/core/datasets/indexed_dataset.py. Little endian:
// - byte 0: "MMIDIDX" 0 0; 9: u64 version 1; 17: u8 token type; 18: u64 S sequences; 26: u64 D document
//   entries;
// - byte 34: i32[S] lengths in tokens, i64[S] byte offsets in the .bin, i64[D] first sequence of each
// document,
//   terminated by S; in multimodal files only, i8[S] modes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/base/mapped_file.h"
#include "braid/data/index/data_record.h"

namespace braid::data {

/// The storage type of a token. The values are the codes in the file: Megatron's, and PaddleNLP's additional
/// 9 and 10.
enum class TokenType : uint8_t {
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kU16 = 8,
  kU32 = 9,
  kU64 = 10,
};

/// 1, 2, 4 or 8.
int64_t bytes_of(TokenType type);

/// "uint16", "int32", ...
std::string_view name_of(TokenType type);

/// The smallest and largest token id that fit in both the type and int64.
struct TokenLimits {
  int64_t smallest = 0;
  int64_t largest = 0;
};
TokenLimits limits_of(TokenType type);

/// The choice of Megatron's tools: kU16 below 65500 token ids, otherwise kI32.
TokenType token_type_for_vocabulary(int64_t vocabulary_size);

/// `path` without a trailing ".bin" or ".idx".
std::string index_prefix(std::string_view path);

/// The files <prefix>.bin and <prefix>.idx, mapped into memory. Every number in the index is checked on
/// opening, so that later reads cannot fail on damaged files. Movable; const members are thread-safe.
class IndexedReader {
 public:
  /// Throws DataError with the file, the byte offset, the problem and the remedy if a file is missing,
  /// truncated, of another format, or inconsistent with itself, the other file or the record beside them, or
  /// if there is a loss mask (<prefix>.lsm), which braid does not apply.
  explicit IndexedReader(std::string prefix);

  int64_t sequence_count() const { return sequences_; }
  int64_t document_count() const { return documents_; }
  int64_t token_count() const { return tokens_; }
  TokenType token_type() const { return type_; }
  const std::string& prefix() const { return prefix_; }
  std::string bin_path() const { return prefix_ + ".bin"; }
  std::string idx_path() const { return prefix_ + ".idx"; }

  /// What is known of the files beside their tokens, if they have a record.
  const std::optional<DataRecord>& record() const { return record_; }

  /// Length of sequence 0 <= `sequence` < sequence_count(), in tokens.
  int32_t sequence_length(int64_t sequence) const { return idx_.load<int32_t>(34 + 4 * sequence); }

  /// The byte offset of that sequence in the .bin.
  int64_t sequence_offset_bytes(int64_t sequence) const {
    return idx_.load<int64_t>(34 + 4 * sequences_ + 8 * sequence);
  }

  /// The first sequence of document 0 <= `document` <= document_count(); for the last value,
  /// sequence_count().
  int64_t document_begin(int64_t document) const {
    return idx_.load<int64_t>(34 + 12 * sequences_ + 8 * document);
  }

  /// Writes tokens [offset, offset + count) of `sequence` to `out`, which must have room for `count`. Throws
  /// InternalError if they exceed the sequence.
  void read(int64_t sequence, int64_t offset, int64_t count, int64_t* out) const;

  /// All tokens of a sequence.
  std::vector<int64_t> sequence(int64_t sequence) const;

  /// The whole .bin, token_count() * bytes_of(token_type()) bytes; lives as long as the reader.
  std::span<const std::byte> bin_bytes() const { return bin_.bytes(); }

 private:
  std::string prefix_;
  MappedFile idx_;
  MappedFile bin_;
  TokenType type_ = TokenType::kU16;
  int64_t sequences_ = 0;
  int64_t documents_ = 0;
  int64_t tokens_ = 0;
  std::optional<DataRecord> record_;
};

/// Writes the two files, byte for byte like Megatron's builder. Until finish() they are named
/// <prefix>.bin.partial and <prefix>.idx.partial, so that an incomplete pair is never read as data.
class IndexedWriter {
 public:
  /// Throws DataError if the file cannot be created (the directory must exist).
  IndexedWriter(std::string prefix, TokenType type);
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;
  /// Removes the partial files if finish() did not succeed.
  ~IndexedWriter();

  /// Adds a sequence to the current document. Throws DataError for an id that does not fit in the token type,
  /// a sequence of more than 2^31 - 1 tokens, or a full disk.
  void add_sequence(std::span<const int64_t> tokens);

  /// Ends the document consisting of the sequences since the last call.
  void end_document();

  /// Adds all sequences and documents of a finished file. Throws DataError if its token type differs,
  /// InternalError within a document.
  void append_file(const IndexedReader& other);

  /// Puts the documents in the order of numpy.random.RandomState(seed).permutation(document_count()), by a
  /// second pass over the .bin, whose size the disk must have room for once more. Needs 12 bytes of memory
  /// per document and sequence. Calls `progress` with the share done, every 64 MiB; what it throws, this
  /// throws. No sequence may be added afterwards. Throws InternalError within a document or if called twice,
  /// ConfigError for a seed outside [0, 2^32), DataError if the disk is full.
  void shuffle_documents(int64_t seed, const std::function<void(double)>& progress = {});

  /// Writes the index, flushes the files to the disk and renames them, replacing existing files. With
  /// `record`, also writes <prefix>.meta.json, filling in the counts and the fingerprint of the .bin;
  /// without, removes one that exists. Throws InternalError within a document or if called twice, DataError
  /// if the disk is full.
  void finish(std::optional<DataRecord> record = std::nullopt);

  int64_t sequence_count() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t document_count() const { return static_cast<int64_t>(documents_.size()) - 1; }
  int64_t token_count() const { return tokens_; }

 private:
  void require_closed_document(std::string_view action) const;

  std::string prefix_;
  TokenType type_;
  std::unique_ptr<FileSink> bin_;  // null once the .bin is complete
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_{0};
  int64_t tokens_ = 0;
  std::vector<std::byte> encoded_;
  enum class State { kWriting, kFinished } state_ = State::kWriting;
};

/// The largest token id in the file, or -1 if it has no tokens. Reads the whole .bin once with `threads`
/// threads.
int64_t find_max_token(const IndexedReader& reader, int32_t threads = 1);

/// Throws DataError with the .bin if the reader has a record and the .bin is not the one of which it tells,
/// by its fingerprint. Reads at most 32 MiB.
void check_fingerprint(const IndexedReader& reader);

/// Throws DataError with the .bin, the sequence, the byte offset, the id and the vocabulary size if a token
/// id is outside [0, vocabulary_size). Reads the whole .bin once, up to the first such id, with `threads`
/// threads.
void check_token_ids(const IndexedReader& reader, int64_t vocabulary_size, int32_t threads = 1);

}  // namespace braid::data
