// Documents out of text files, JSON lines and folders of them, one at a time.
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
  std::string json_key = "text";      // of the text in a line of a .jsonl file
  // Of what is found in directories:
  std::vector<std::string> excluded{};    // files and directories with these names are left out
  std::vector<std::string> extensions{};  // only files with these are read ("rst" or ".rst"); empty: all
};

/// What was read and what was left out.
struct TextCounts {
  int64_t files = 0;            // read
  int64_t hidden = 0;           // files and directories in directories whose name begins with a dot
  int64_t excluded = 0;         // files and directories that TextOptions::excluded names
  int64_t other_extension = 0;  // files in directories that TextOptions::extensions leaves out
  int64_t binary = 0;           // files in directories with a NUL among their first 8192 bytes
  int64_t special = 0;          // links to directories, dangling links, devices and sockets in directories
  int64_t invalid_utf8 = 0;     // places where U+FFFD took the place of bytes that are not UTF-8
  bool operator==(const TextCounts&) const = default;
};

struct Document {
  std::string text{};    // valid UTF-8, without a byte order mark at its begin
  std::string origin{};  // "notes/a.txt" or "notes/b.jsonl:12"
};

/// The documents of all inputs in order; one is in memory at a time. A file named *.jsonl (or *.jsonl.gz)
/// holds one document a line, any other file is one document. Files are decompressed if they begin as gzip's
/// do. Directories are walked to their depths, in the byte order of the paths; links to files are followed,
/// links to directories are not.
class TextSource {
 public:
  /// Lists the files. Throws ConfigError if there is no input, an input does not exist, or no file is left.
  explicit TextSource(TextOptions options);

  /// The next document, empty ones included; nothing after the last.
  /// Throws DataError for an unreadable or damaged file and for a line that is not JSON or has no text under
  /// the key, naming file and line; and for an input file (not one found in a directory) that is binary.
  std::optional<Document> next();

  /// Size of all listed files on disk, and how much of that is behind; for a progress bar.
  int64_t total_bytes() const { return total_bytes_; }
  int64_t done_bytes() const;

  const TextCounts& counts() const { return counts_; }

 private:
  struct File {
    std::filesystem::path path;
    int64_t bytes = 0;
    bool named = false;  // by the user, not found in a directory
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
  const File* file_ = nullptr;  // the one that is open
  std::optional<StreamReader> reader_;
  int64_t line_ = 0;
};

/// One line of what was left out, such as "left out 2 hidden and 1 binary file(s)", or "" if nothing was.
std::string left_out_text(const TextCounts& counts);

}  // namespace braid::data
