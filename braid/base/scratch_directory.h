// For tests: a directory of its own that goes when its object does.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace braid {

/// A new, empty directory under the system's directory for temporary files, removed with all that it holds.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    // mkdtemp puts letters of its own in place of the X's.
    std::string name = std::filesystem::temp_directory_path().string() + "/braid_test_" + std::string(6, 'X');
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
    }
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// The path of `name` in it, whether it exists or not.
  std::string file(std::string_view name) const { return (path_ / name).string(); }

  /// The path of a file with this content, made with the directories above it.
  std::string write(std::string_view name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return file(name);
  }

  /// The content of a file in it; empty if there is none.
  std::string read(std::string_view name) const {
    std::ifstream in(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path path_;
};

}  // namespace braid
