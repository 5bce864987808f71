#include "braid/data/index/indexed_file.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/fingerprint.h"
#include "braid/base/foreign_file.h"
#include "braid/data/index/token_dispatch.h"

namespace braid::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the files are little endian and read without conversion");

constexpr std::string_view kRemedy = "copy it again or prepare it again";
constexpr int64_t kHeaderBytes = 34;

// Throws an error about one file unless `condition` holds: path, byte offset, problem, remedy.
template <typename... Parts>
void check(bool condition, const MappedFile& file, int64_t offset, const Parts&... parts) {
  require<DataError>(condition, file.path(), ", byte ", offset, ": ", parts...);
}

// The first `count` bytes of a file, or all of a shorter file.
std::string_view head_of(const MappedFile& file, size_t count) {
  const auto bytes = file.bytes();
  if (bytes.empty()) return {};
  return {reinterpret_cast<const char*>(bytes.data()), std::min(count, bytes.size())};
}

void require_both_files(const std::string& prefix) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto exists = [&](const char* suffix) { return fs::exists(prefix + suffix, ignored); };
  const bool has_idx = exists(".idx");
  const bool has_bin = exists(".bin");
  if (has_idx && has_bin) return;
  require<DataError>(
      has_idx || !exists("_idx.npz"), prefix,
      "_idx.npz: this is PaddleNLP's old format (_ids.npy and _idx.npz), which braid does not read; "
      "prepare the text again as .bin and .idx");
  require<DataError>(
      has_idx || has_bin || !exists(".idx.partial"), prefix,
      ".idx: only an incomplete .partial file exists; its preparation did not finish, run it again");
  require<DataError>(has_idx || has_bin, prefix, ": neither ", prefix, ".idx nor ", prefix,
                     ".bin exists; pass the common prefix of the two names, without .bin or .idx");
  require<DataError>(has_idx, prefix, ".idx: is missing next to ", prefix, ".bin; ", kRemedy);
  require<DataError>(has_bin, prefix, ".bin: is missing next to ", prefix, ".idx; ", kRemedy);
}

void check_magic(const MappedFile& idx) {
  constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
  const std::string_view head = head_of(idx, kHeaderBytes);
  if (head.starts_with(kMagic)) return;
  check(!head.starts_with("TNTIDX"), idx, 0,
        "this is the old lazy/cached format (TNTIDX), which braid does not read; prepare the text again as "
        "mmap files");
  check(!kMagic.starts_with(head), idx, 0, "the file is truncated: expected at least ", kHeaderBytes,
        " bytes, has ", idx.size(), "; ", kRemedy);
  const std::string foreign =
      foreign_file_text(head_of(idx, kFormatHeadBytes), idx.size(), FileFormat::kTokenIndex);
  check(foreign.empty(), idx, 0, "this ", foreign);
  check(false, idx, 0,
        "this is not a Megatron index (it does not begin with MMIDIDX); use a .idx written by braid data "
        "prepare or Megatron's preprocess_data, or ",
        kRemedy);
}

// A .bin can begin with any bytes; they say what it is only where its size is wrong.
void check_bin_size(const MappedFile& bin, int64_t expected) {
  if (bin.size() == expected) return;
  const std::string_view head = head_of(bin, kFormatHeadBytes);
  if (recognise_format(head, bin.size()) == FileFormat::kGitLfsPointer) {
    const std::string foreign = foreign_file_text(head, bin.size(), FileFormat::kBinary);
    throw DataError(cat(bin.path(), ", byte 0: this ", foreign));
  }
  require<DataError>(bin.size() > expected, bin.path(), ", byte ", bin.size(),
                     ": the file is truncated: expected ", expected, " bytes, has ", bin.size(), "; ",
                     kRemedy);
  throw DataError(cat(bin.path(), ", byte ", expected, ": the index covers ", expected,
                      " bytes, but the file has ", bin.size(), ": the two files do not match; ", kRemedy));
}

void reject_loss_mask(const std::string& prefix) {
  std::error_code ignored;
  require<DataError>(
      !std::filesystem::exists(prefix + ".lsm", ignored), prefix,
      ".lsm: is a loss mask (PaddleNLP's), one byte a token, which braid does not apply: move it "
      "elsewhere to train on every token, as PaddleNLP's run_pretrain does, or remove the masked "
      "text");
}

// The record tells of these files, and not of others that were put in their place.
void check_record(const DataRecord& record, const IndexedReader& reader) {
  const bool matches = record.documents == reader.document_count() && record.tokens == reader.token_count();
  require<DataError>(matches, record_path(reader.prefix()), ": tells of ", record.documents,
                     " documents and ", record.tokens, " tokens, but ", reader.idx_path(), " has ",
                     reader.document_count(), " and ", reader.token_count(),
                     ": the files were replaced by others; copy all three again, or remove the .meta.json if "
                     "another program wrote the two");
}

TokenType checked_type(const MappedFile& idx, uint8_t code) {
  check(code != 6 && code != 7, idx, 17, "token type code ", int{code},
        " is a floating-point type, but token ids are integers; this file does not hold tokens");
  const bool is_known = (code >= 1 && code <= 5) || (code >= 8 && code <= 10);
  check(is_known, idx, 17, "unknown token type code ", int{code}, " (known: 1-5, 8-10); ", kRemedy);
  return static_cast<TokenType>(code);
}

}  // namespace

int64_t bytes_of(TokenType type) {
  return dispatch(type, []<typename T>(T) { return static_cast<int64_t>(sizeof(T)); });
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "uint8";
    case TokenType::kI8:
      return "int8";
    case TokenType::kI16:
      return "int16";
    case TokenType::kI32:
      return "int32";
    case TokenType::kI64:
      return "int64";
    case TokenType::kU16:
      return "uint16";
    case TokenType::kU32:
      return "uint32";
    case TokenType::kU64:
      return "uint64";
  }
  throw InternalError(cat("token type ", static_cast<int>(type), " does not exist"));
}

TokenLimits limits_of(TokenType type) {
  return dispatch(type, []<typename T>(T) {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<T>::max());
    constexpr auto kInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return TokenLimits{static_cast<int64_t>(std::numeric_limits<T>::min()),
                       static_cast<int64_t>(std::min(kLargest, kInt64))};
  });
}

TokenType token_type_for_vocabulary(int64_t vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::kU16 : TokenType::kI32;
}

std::string index_prefix(std::string_view path) {
  if (path.ends_with(".bin") || path.ends_with(".idx")) path.remove_suffix(4);
  return std::string(path);
}

IndexedReader::IndexedReader(std::string prefix) : prefix_(std::move(prefix)) {
  require_both_files(prefix_);
  reject_loss_mask(prefix_);
  idx_ = MappedFile(idx_path());
  bin_ = MappedFile(bin_path());

  check_magic(idx_);
  check(idx_.size() >= kHeaderBytes, idx_, idx_.size(), "the file is truncated: expected at least ",
        kHeaderBytes, " bytes, has ", idx_.size(), "; ", kRemedy);
  const auto version = idx_.load<uint64_t>(9);
  check(version == 1, idx_, 9, "unknown version ", version, " (only 1 is supported); ", kRemedy);
  type_ = checked_type(idx_, idx_.load<uint8_t>(17));
  const int64_t token_bytes = bytes_of(type_);

  // Bounding both counts by the file size first prevents overflow below.
  const auto sequences = idx_.load<uint64_t>(18);
  const auto entries = idx_.load<uint64_t>(26);
  const auto limit = static_cast<uint64_t>(idx_.size());
  check(sequences <= limit / 12 && entries <= limit / 8, idx_, idx_.size(),
        "the file is truncated: it declares ", sequences, " sequences and ", entries,
        " document entries, but has only ", idx_.size(), " bytes; ", kRemedy);
  check(entries >= 1, idx_, 26, "the document index is empty; it must have at least a 0; ", kRemedy);
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(entries) - 1;
  const int64_t documents_at = kHeaderBytes + 12 * sequences_;
  const int64_t expected = documents_at + 8 * (documents_ + 1);
  check(idx_.size() >= expected, idx_, idx_.size(), "the file is truncated: expected ", expected,
        " bytes, has ", idx_.size(), "; ", kRemedy);
  check(idx_.size() == expected || idx_.size() == expected + sequences_, idx_, expected,
        "expected the file to end (or ", sequences_, " bytes of modes), but it has ", idx_.size(), " bytes; ",
        kRemedy);
  for (int64_t at = expected; at < idx_.size(); ++at) {
    check(idx_.load<int8_t>(at) == 0, idx_, at,
          "this is a multimodal file (a sequence has a mode other than 0); braid trains on text only");
  }

  int64_t bytes = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int32_t length = sequence_length(i);
    check(length >= 0, idx_, kHeaderBytes + 4 * i, "sequence ", i, " has the negative length ", length, "; ",
          kRemedy);
    const int64_t offset = sequence_offset_bytes(i);
    check(offset == bytes, idx_, kHeaderBytes + 4 * sequences_ + 8 * i, "sequence ", i, " begins at byte ",
          offset, " of the .bin according to its offset, but at ", bytes,
          " according to the preceding lengths; ", kRemedy);
    bytes += length * token_bytes;
  }
  tokens_ = bytes / token_bytes;
  check_bin_size(bin_, bytes);

  int64_t previous = 0;
  for (int64_t d = 0; d <= documents_; ++d) {
    const int64_t first = document_begin(d);
    const int64_t at = documents_at + 8 * d;
    check(d > 0 || first == 0, idx_, at, "the document index begins with ", first, ", not with 0; ", kRemedy);
    check(first >= previous && first <= sequences_, idx_, at, "document entry ", d, " is ", first,
          ", outside [", previous, ", ", sequences_, "]; ", kRemedy);
    previous = first;
  }
  check(previous == sequences_, idx_, idx_.size() - 8, "the document index ends at sequence ", previous,
        ", but there are ", sequences_,
        " sequences (as after a merge without documents); prepare or merge it again");
  record_ = read_record(prefix_);
  if (record_) check_record(*record_, *this);
}

void IndexedReader::read(int64_t sequence, int64_t offset, int64_t count, int64_t* out) const {
  require<InternalError>(0 <= sequence && sequence < sequences_, "sequence ", sequence, " of ", sequences_);
  const int64_t length = sequence_length(sequence);
  require<InternalError>(0 <= offset && 0 <= count && offset <= length && count <= length - offset,
                         "tokens [", offset, ", +", count, ") of a sequence of ", length);
  const int64_t begin = sequence_offset_bytes(sequence) / bytes_of(type_) + offset;
  dispatch(type_, [&]<typename T>(T) {
    const auto width = static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int64_t>(bin_.load<T>((begin + i) * width));
  });
}

std::vector<int64_t> IndexedReader::sequence(int64_t sequence) const {
  std::vector<int64_t> tokens(static_cast<size_t>(sequence_length(sequence)));
  read(sequence, 0, static_cast<int64_t>(tokens.size()), tokens.data());
  return tokens;
}

void check_fingerprint(const IndexedReader& reader) {
  if (!reader.record()) return;
  require<DataError>(
      file_fingerprint(reader.bin_path()) == reader.record()->bin_fingerprint, reader.bin_path(),
      ": is not the file of which ", record_path(reader.prefix()),
      " tells: it was changed or replaced; copy all three files again, or prepare the text again");
}

}  // namespace braid::data
