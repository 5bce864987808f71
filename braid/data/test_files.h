// Helpers for the tests of this folder: files as strings.
#pragma once

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "braid/data/index/indexed_file.h"

namespace braid::data {

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Writes a token file with one document per entry of `documents`.
inline void write_documents(const std::string& prefix, std::span<const std::vector<int64_t>> documents,
                            TokenType type = TokenType::kU16) {
  IndexedWriter writer(prefix, type);
  for (const auto& document : documents) {
    writer.add_sequence(document);
    writer.end_document();
  }
  writer.finish();
}

}  // namespace braid::data
