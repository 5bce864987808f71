// File access for the token formats: reads through a memory map of known size, writes with every error
// reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace braid {

/// A whole file mapped for reading. Movable. The file must not be truncated while it is mapped: the system
/// would kill the process on access.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws DataError with the path and the system's reason unless `path` is a readable regular file.
  explicit MappedFile(std::string path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }

  /// The T at byte `offset`, which need not be aligned. Not checked: the T lies within size().
  template <typename T>
  T load(int64_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

/// A file written through a buffer. Every failure throws OutputError with the path and what to do.
class FileSink {
 public:
  /// Creates or truncates `path`.
  explicit FileSink(std::string path);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  /// Closes the file; buffered bytes are discarded.
  ~FileSink();

  const std::string& path() const { return path_; }
  void write(std::span<const std::byte> bytes);

  template <typename T>
  void write_array(std::span<const T> values) {
    write(std::as_bytes(values));
  }
  template <typename T>
  void write_value(T value) {
    write(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }

  /// Flushes the buffer, synchronises the file to the disk, and closes it.
  void close();

 private:
  void flush();
  void write_out(std::span<const std::byte> bytes);

  std::string path_;
  int fd_ = -1;
  int64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace braid
