// Checked reading and atomic replacement of files: a failed read throws DataError, a failed write
// OutputError, with the path, the offset and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace braid::checkpoint {

/// A regular file open for reading. Reads use pread rather than a mapping, so that a file truncated while
/// being read, or a failing disk, causes a DataError instead of SIGBUS. Concurrent reads are safe.
class ReadableFile {
 public:
  /// Throws DataError if `path` cannot be opened or is not a regular file. Follows symbolic links; does not
  /// block on a pipe.
  explicit ReadableFile(std::filesystem::path path);
  ~ReadableFile();
  ReadableFile(ReadableFile&& other) noexcept;
  ReadableFile& operator=(ReadableFile&& other) noexcept;
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  /// Size when the file was opened.
  int64_t size_bytes() const { return size_bytes_; }
  const std::filesystem::path& path() const { return path_; }

  /// Fills `bytes` starting at `offset_bytes`. Throws DataError if the file is too short or cannot be read.
  void read(int64_t offset_bytes, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
};

/// The content of a text file. Throws DataError if it is larger than `limit_bytes`, or as ReadableFile does.
std::string read_text(const std::filesystem::path& path, int64_t limit_bytes);

/// A file that appears under its name only once it is complete: written as `path`.partial, then synced and
/// renamed by commit(). Without a commit, the destructor removes the partial file and any existing `path`
/// is kept. A `path` that is a device or a pipe, such as /dev/stdout, is written directly.
class ReplacingFile {
 public:
  /// Removes a `path`.partial left by an earlier run. Throws OutputError if the file cannot be created.
  explicit ReplacingFile(std::filesystem::path path);
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  /// Appends `bytes`. Throws OutputError with the remedy, for example for a full disk.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Syncs and renames the file, then syncs the directory. To be called once, last. Throws OutputError.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view action) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  int64_t written_bytes_ = 0;
};

/// Replaces the file's content with `text` atomically. Throws OutputError if it cannot be written.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// Removes a file if it exists. Throws OutputError if it cannot be removed.
void remove_file(const std::filesystem::path& path);

/// Creates a directory and its parents. Throws OutputError if that fails.
void make_directory(const std::filesystem::path& path);

}  // namespace braid::checkpoint
