// Documents from text files, JSON and directories of them, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "braid/data/text/json_values.h"
#include "braid/data/text/text_source_stream.h"

namespace braid::data {

/// How files are divided into documents. kAuto: by their names and contents.
enum class TextFormat : uint8_t { kAuto, kText, kJsonLines, kJson };

struct TextOptions {
  std::vector<std::string> inputs{};  // files and directories, read in this order
  std::string json_key = "text";      // of the text in a JSON object
  TextFormat format = TextFormat::kAuto;
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
  int64_t binary = 0;           // files in directories that are not text
  int64_t without_key = 0;      // JSON files in directories whose first object has no text under the key
  int64_t special = 0;          // links to directories, dangling links, devices and sockets in directories
  int64_t invalid_utf8 = 0;     // places where U+FFFD replaced invalid UTF-8
  // The first of the files of these two kinds, each with what it is.
  std::vector<std::string> binary_names{};
  std::vector<std::string> without_key_names{};
  bool operator==(const TextCounts&) const = default;
};

struct Document {
  std::string text{};    // valid UTF-8 without a leading byte order mark
  std::string origin{};  // "notes/a.txt" or "notes/b.jsonl:12"
};

/// The documents of all inputs in order, one in memory at a time. Files compressed by gzip or zstd are
/// decompressed, whatever their names. With TextFormat::kAuto
/// - a file named *.jsonl or *.ndjson (in any case, and before .gz or .zst) has one JSON object a line;
/// - a file named *.json has one object a line, an array of objects, or objects over several lines;
/// - a file of another name has one object a line if its first line is one;
/// - any other file is one document.
/// Directories are walked recursively, in the byte order of the paths; links to files are followed, links to
/// directories are not.
class TextSource {
 public:
  /// Lists the files. Throws ConfigError if there is no input, an input does not exist, or no file remains.
  explicit TextSource(TextOptions options);

  /// The next document, possibly empty; nothing after the last. Throws DataError, with file and line, for an
  /// unreadable or damaged file, for an object that is not JSON or has no text under the key, for a binary
  /// file given as an input (not found in a directory), and, also in a directory, for files that hold text
  /// but must be converted first (Parquet, Arrow, Git LFS pointers, other compressions).
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
  bool is_text(std::string_view head);
  TextFormat format_of_open_file();
  void close();
  std::optional<Document> next_object();
  std::optional<JsonValues::Value> next_value();
  Document finished(std::string text, std::string origin);

  TextOptions options_;
  TextCounts counts_;
  std::vector<File> files_;
  int64_t total_bytes_ = 0;
  int64_t closed_bytes_ = 0;
  size_t next_file_ = 0;
  const File* file_ = nullptr;  // the open file
  std::optional<StreamReader> reader_;
  TextFormat format_ = TextFormat::kText;  // of the open file; never kAuto
  std::optional<JsonValues> values_;       // of a kJson file
  int64_t line_ = 0;                       // of a kJsonLines file
  int64_t objects_ = 0;                    // read from the open file
};

/// One line about skipped files, such as "skipped: 2 hidden, 1 binary", or "" if there are none.
std::string skipped_text(const TextCounts& counts);

}  // namespace braid::data
