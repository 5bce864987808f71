#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/data/index/indexed_file.h"
#include "braid/data/index/token_dispatch.h"

namespace braid::data {
namespace {

void rename_file(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  require<OutputError>(!error, to, ": cannot be created by renaming: ", error.message(), "; ",
                       write_remedy(error.value()));
}

}  // namespace

IndexedWriter::IndexedWriter(std::string prefix, TokenType type)
    : prefix_(std::move(prefix)), type_(type), bin_(prefix_ + ".bin.partial") {}

IndexedWriter::~IndexedWriter() {
  if (state_ == State::kFinished) return;
  std::error_code ignored;
  std::filesystem::remove(prefix_ + ".bin.partial", ignored);
  std::filesystem::remove(prefix_ + ".idx.partial", ignored);
}

void IndexedWriter::require_closed_document(std::string_view action) const {
  require<InternalError>(state_ == State::kWriting, prefix_, ": ", action, " after finish()");
  require<InternalError>(documents_.back() == sequence_count(), prefix_, ": ", action,
                         " within a document: call end_document() first");
}

void IndexedWriter::add_sequence(std::span<const int64_t> tokens) {
  require<InternalError>(state_ == State::kWriting, prefix_, ": add_sequence after finish()");
  require<DataError>(
      tokens.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()), prefix_,
      ".idx: a sequence of ", tokens.size(),
      " tokens is too long: the index stores lengths below 2^31; split the text into smaller documents");
  const auto [smallest, largest] = limits_of(type_);
  const auto outlier = std::find_if(tokens.begin(), tokens.end(),
                                    [=](int64_t token) { return token < smallest || token > largest; });
  if (outlier != tokens.end()) {
    throw DataError(cat(prefix_, ".bin: token id ", *outlier, " does not fit in ", name_of(type_), " [",
                        smallest, ", ", largest, "]; write the file with a wider token type"));
  }
  const size_t element_bytes = static_cast<size_t>(bytes_of(type_));
  encoded_.resize(tokens.size() * element_bytes);
  dispatch(type_, [&]<typename T>(T) {
    std::byte* out = encoded_.data();
    for (const int64_t token : tokens) {
      const T value = static_cast<T>(token);
      std::memcpy(out, &value, sizeof(T));
      out += sizeof(T);
    }
  });
  bin_.write(encoded_);
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  tokens_ += static_cast<int64_t>(tokens.size());
}

void IndexedWriter::end_document() {
  require<InternalError>(state_ == State::kWriting, prefix_, ": end_document after finish()");
  documents_.push_back(sequence_count());
}

void IndexedWriter::append_file(const IndexedReader& other) {
  require_closed_document("append_file");
  require<DataError>(other.token_type() == type_, other.idx_path(), ": has ", name_of(other.token_type()),
                     " tokens and cannot be appended to ", prefix_, ", which has ", name_of(type_));
  bin_.write(other.bin_bytes());
  const int64_t first_sequence = sequence_count();
  lengths_.reserve(lengths_.size() + static_cast<size_t>(other.sequence_count()));
  for (int64_t i = 0; i < other.sequence_count(); ++i) lengths_.push_back(other.sequence_length(i));
  for (int64_t d = 1; d <= other.document_count(); ++d) {
    documents_.push_back(first_sequence + other.document_begin(d));
  }
  tokens_ += other.token_count();
}

void IndexedWriter::finish() {
  require_closed_document("finish");
  bin_.close();

  FileSink idx(prefix_ + ".idx.partial");
  static constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
  idx.write_array<char>(kMagic);
  idx.write_value<uint64_t>(1);
  idx.write_value<uint8_t>(static_cast<uint8_t>(type_));
  idx.write_value<uint64_t>(lengths_.size());
  idx.write_value<uint64_t>(documents_.size());
  idx.write_array<int32_t>(lengths_);
  int64_t offset_bytes = 0;
  for (const int32_t length : lengths_) {
    idx.write_value(offset_bytes);
    offset_bytes += length * bytes_of(type_);
  }
  idx.write_array<int64_t>(documents_);
  idx.close();

  // The old index is removed first and the new one renamed last, so that an index never exists next to a .bin
  // of another file.
  std::error_code error;
  std::filesystem::remove(prefix_ + ".idx", error);
  require<OutputError>(!error, prefix_, ".idx: the old file cannot be removed: ", error.message(), "; ",
                       write_remedy(error.value()));
  rename_file(bin_.path(), prefix_ + ".bin");
  rename_file(idx.path(), prefix_ + ".idx");
  state_ = State::kFinished;
}

}  // namespace braid::data
