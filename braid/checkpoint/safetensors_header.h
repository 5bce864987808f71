// The header of a safetensors file: a JSON object of names, dtypes, shapes and byte ranges.
// The file: 8 bytes length of the header (little endian), the header, then the tensors' bytes, packed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::checkpoint {

/// Longest header that is read.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

/// One tensor of a file.
struct TensorEntry {
  std::string name;
  std::string dtype;  // as the format names it: "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin_bytes = 0;  // counted from the first byte after the header
  int64_t end_bytes = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // by byte range
  std::map<std::string, std::string> metadata;

  bool operator==(const SafetensorsHeader&) const = default;
};

/// Bytes of one element of a dtype ("F32" -> 4), or nothing if the dtype is not known.
std::optional<int64_t> dtype_bytes(std::string_view dtype);

/// The header in `json`, of a file with `data_bytes` bytes after it; `file` names the file in messages.
/// Each entry's range equals its shape and dtype, and the ranges cover the data without overlap or hole.
/// Pure. Throws DataError for anything else: broken or deep JSON, a name or key twice, unknown keys or
/// dtypes, negative, fractional or overflowing numbers, ranges that are reversed, overlap, leave holes or
/// leave the file.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                           const std::string& file);

/// The first bytes of a file with these entries, in the given order: the length, then the JSON, with spaces
/// to a multiple of 8 bytes. Byte ranges are taken as given. Throws InternalError for a name that is there
/// twice or reserved.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace braid::checkpoint
