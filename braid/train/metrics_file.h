// The file of a run's metrics, one line a record.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace braid::train {

/// Appends lines, each of which reaches the file system before append returns: a run that dies leaves every
/// finished step. Notices when the file is deleted or replaced while the run goes on, which a plain write
/// does not.
class MetricsFile {
 public:
  /// Creates or empties the file. Throws OutputError.
  explicit MetricsFile(std::filesystem::path path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Appends `line` and a newline. Throws OutputError if it cannot be written, or if what is at the path is
  /// no longer this file.
  void append(std::string_view line);

 private:
  void write(std::string_view text) const;
  void require_still_there() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  struct stat made_ {};
};

}  // namespace braid::train
