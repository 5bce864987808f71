// Documents from text files, JSON lines and directories of them, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "braid/data/text/text_source_stream.h"

namespace braid::data {

struct TextOptions {
  std::vector<std::string> inputs{};  // files and directories, read in this order
  std::string json_key = "text";      // of the text in each line of a .jsonl file
  // For directories:
  std::vector<std::string> excluded{};    // names of files and directories to skip
  std::vector<std::string> extensions{};  // of the files to read ("rst" or ".rst"); empty: all
};

/// Counts of files read and skipped.
struct TextCounts {
  int64_t files = 0;            // read
  int64_t hidden = 0;           // files and directories in directories whose names begin with a dot
  int64_t excluded = 0;         // files and directories skipped by TextOptions::excluded
  int64_t other_extension = 0;  // files in directories skipped by TextOptions::extensions
  int64_t binary = 0;           // files in directories with a NUL among their first 8192 bytes
  int64_t special = 0;          // links to directories, dangling links, devices and sockets in directories
  int64_t invalid_utf8 = 0;     // places where U+FFFD replaced invalid UTF-8
  bool operator==(const TextCounts&) const = default;
};

struct Document {
  std::string text{};    // valid UTF-8 without a leading byte order mark
  std::string origin{};  // "notes/a.txt" or "notes/b.jsonl:12"
};

/// The documents of all inputs in order, one in memory at a time. A file named *.jsonl (or *.jsonl.gz) has
/// one document per line, any other file is one document. Files with gzip's magic number are decompressed.
/// Directories are walked recursively, in the byte order of the paths; links to files are followed, links to
/// directories are not.
class TextSource {
 public:
  /// Lists the files. Throws ConfigError if there is no input, an input does not exist, or no file remains.
  explicit TextSource(TextOptions options);

  /// The next document, possibly empty; nothing after the last. Throws DataError, with file and line, for an
  /// unreadable or damaged file, for a line that is not JSON or has no text under the key, and for a binary
  /// file given as an input (not found in a directory).
  std::optional<Document> next();

  /// Size of all listed files on disk, and the part already read; for a progress bar.
  int64_t total_bytes() const { return total_bytes_; }
  int64_t done_bytes() const;

  const TextCounts& counts() const { return counts_; }

 private:
  struct File {
    std::filesystem::path path;
    int64_t bytes = 0;
    bool named = false;  // given by the user, not found in a directory
  };

  void add_directory(const std::filesystem::path& directory);
  bool open_next();
  void close();
  std::optional<Document> next_line();
  Document finished(std::string text, std::string origin);

  TextOptions options_;
  TextCounts counts_;
  std::vector<File> files_;
  int64_t total_bytes_ = 0;
  int64_t closed_bytes_ = 0;
  size_t next_file_ = 0;
  const File* file_ = nullptr;  // the open file
  std::optional<StreamReader> reader_;
  int64_t line_ = 0;
};

/// One line about skipped files, such as "skipped: 2 hidden, 1 binary", or "" if there are none.
std::string skipped_text(const TextCounts& counts);

}  // namespace braid::data
