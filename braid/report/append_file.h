// A new file that grows by whole records.
#pragma once

#include <filesystem>
#include <string_view>

namespace braid::report {

/// Every append reaches the system at once: a program that dies afterwards has lost nothing of it.
class AppendFile {
 public:
  /// Throws OutputError, with the reason, if the file exists or cannot be created.
  explicit AppendFile(std::filesystem::path path);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Throws OutputError, with the reason, if not everything could be written.
  void append(std::string_view bytes);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace braid::report
