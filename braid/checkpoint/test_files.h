// Helpers for the tests of this folder: files as strings, and error messages.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace braid::checkpoint {

/// Writes a new file: rewriting one in place makes some file systems wait for the disk.
inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The message of the Error that `action` throws, or "" if it throws nothing. Other exceptions propagate.
template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace braid::checkpoint
