// The log of one rank: its last lines in memory, all of them in a file.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "braid/launch/file_descriptor.h"
#include "braid/launch/log_text.h"

namespace braid::launch {

/// Appends to its file as lines become complete. A file that can no longer be written (a full disk) does not
/// end the run.
class RankLog {
 public:
  /// No file, only the last lines.
  RankLog() = default;

  /// Throws ConfigError if `path` cannot be opened for appending.
  explicit RankLog(std::string path);

  /// The reason, if this is the first time that the file could not be written; nothing is written to it
  /// afterwards.
  [[nodiscard]] std::optional<std::string> take(std::string_view bytes);

  /// Writes the unfinished last line; returns the same as take. take may not be called afterwards.
  [[nodiscard]] std::optional<std::string> finish();

  const std::deque<std::string>& last_lines() const { return text_.last_lines(); }
  const std::string& path() const { return path_; }

 private:
  std::optional<std::string> write(std::string_view text);

  LogText text_;
  std::string path_;
  FileDescriptor file_;
};

/// `directory`/workerlog.`local_rank`.
std::string log_path(const std::string& directory, int64_t local_rank);

/// Creates `directory` and its parents. Throws ConfigError naming --log_dir if it cannot be created or is not
/// a directory.
void make_log_directory(const std::string& directory);

}  // namespace braid::launch
