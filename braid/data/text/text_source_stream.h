// Bytes of a file in order, compressed by gzip or not, taken by lines or whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid::data {

/// Bytes of a file, from its begin to its end.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// Fills the begin of `buffer` and returns how many bytes; 0 only at the end. Throws DataError with the
  /// file's name.
  virtual size_t read(std::span<char> buffer) = 0;

  /// How far into the file on disk it has read, in bytes (compressed ones for a compressed file).
  virtual int64_t position_bytes() const = 0;
};

/// Opens `file`; a file that begins as gzip's do (1F 8B) is decompressed while it is read.
/// Throws DataError if it cannot be opened, ConfigError for a compressed file where this build has no zlib.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& file);

/// Opens `file`, which is compressed by gzip. Absent where built with BRAID_WITH_ZLIB=OFF: then it throws
/// ConfigError.
std::unique_ptr<ByteStream> open_gzip(const std::filesystem::path& file);

/// Whether this build has zlib.
bool gzip_available();

/// Takes a stream by lines or whole.
class StreamReader {
 public:
  explicit StreamReader(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  /// The next bytes, at least `bytes` of them unless the file ends before; they stay to be read.
  std::string_view peek(size_t bytes);

  /// The next line without its newline, or nothing at the end. A last line needs no newline.
  std::optional<std::string> line();

  /// All that is left.
  std::string rest();

  int64_t position_bytes() const { return stream_->position_bytes(); }

 private:
  bool fill();

  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not taken yet, in buffer_
};

}  // namespace braid::data
