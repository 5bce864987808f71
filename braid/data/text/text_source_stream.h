// Sequential reading of plain and compressed files, by lines or completely.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid::data {

/// The bytes of a file in order.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// Fills the beginning of `buffer` and returns the number of bytes, 0 only at the end. Throws DataError
  /// with the file's name.
  virtual size_t read(std::span<char> buffer) = 0;

  /// The read position in the file on disk, in bytes (compressed bytes for a compressed file).
  virtual int64_t position_bytes() const = 0;
};

/// Opens `file`; one with gzip's or zstd's magic number is decompressed while being read. Throws DataError if
/// it cannot be opened, ConfigError for a compressed file in a build without its library.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& file);

/// Opens the gzip-compressed `file`. Throws ConfigError in a build with BRAID_WITH_ZLIB=OFF.
std::unique_ptr<ByteStream> open_gzip(const std::filesystem::path& file);

/// Whether this build has zlib.
bool gzip_available();

/// Opens the zstd-compressed `file`. Throws ConfigError in a build with BRAID_WITH_ZSTD=OFF.
std::unique_ptr<ByteStream> open_zstd(const std::filesystem::path& file);

/// Whether this build has zstd.
bool zstd_available();

/// Opens `file` without decompressing it. Throws DataError.
std::unique_ptr<ByteStream> open_plain(const std::filesystem::path& file);

/// Reads a stream by lines or completely.
class StreamReader {
 public:
  explicit StreamReader(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  /// The next bytes without consuming them, at least `bytes` unless the file ends before.
  std::string_view peek(size_t bytes);

  /// Skips `bytes` bytes, which have been peeked at.
  void consume(size_t bytes) { begin_ += bytes; }

  /// The next line without its newline, or nothing at the end. The last line needs no newline.
  std::optional<std::string> line();

  /// All remaining bytes.
  std::string rest();

  int64_t position_bytes() const { return stream_->position_bytes(); }

 private:
  bool fill();

  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t begin_ = 0;  // of the unconsumed bytes in buffer_
};

}  // namespace braid::data
