// Files read and replaced whole: a failed read or write is a DataError with the path, the offset and the
// cure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace braid::checkpoint {

/// A regular file open for reading. Reads go through pread and not through a mapping: a file that is cut
/// short or a disk that fails while it is read then ends in a DataError, where a mapping would end in SIGBUS.
/// Reading from several threads at once is safe.
class ReadableFile {
 public:
  /// Throws DataError if `path` cannot be opened or is no regular file. Follows symbolic links; a pipe does
  /// not block.
  explicit ReadableFile(std::filesystem::path path);
  ~ReadableFile();
  ReadableFile(ReadableFile&& other) noexcept;
  ReadableFile& operator=(ReadableFile&& other) noexcept;
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  /// Size when the file was opened.
  int64_t size_bytes() const { return size_bytes_; }
  const std::filesystem::path& path() const { return path_; }

  /// Fills `bytes` from `offset_bytes` on. Throws DataError if the file ends before, or cannot be read.
  void read(int64_t offset_bytes, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
};

/// The whole of a text file. Throws DataError if it is larger than `limit_bytes`, or as ReadableFile does.
std::string read_text(const std::filesystem::path& path, int64_t limit_bytes);

/// A file that appears under its name only when it is complete: written as `path`.partial, then synced and
/// renamed by commit(). Without a commit the destructor removes what was written, and what stood at `path`
/// stays.
class ReplacingFile {
 public:
  /// Removes a `path`.partial that an earlier run left. Throws DataError if the file cannot be created.
  explicit ReplacingFile(std::filesystem::path path);
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  /// Appends `bytes`. Throws DataError, for a full disk with that cure.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Syncs, renames and syncs the directory; call it once, last. Throws DataError if any of these fails.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view action) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  int64_t written_bytes_ = 0;
};

/// Writes `text` into the file, which is replaced as a whole or not at all. Throws DataError if it cannot be
/// written.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// Removes a file; its absence is no error. Throws DataError if it is there and cannot be removed.
void remove_file(const std::filesystem::path& path);

/// Creates a directory and those above it. Throws DataError if that fails.
void make_directory(const std::filesystem::path& path);

}  // namespace braid::checkpoint
