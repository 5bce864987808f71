// The header of a safetensors file: a JSON object of names, dtypes, shapes and byte ranges.
// The file: the length of the header in 8 bytes (little endian), the header, then the tensors' bytes, packed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::checkpoint {

/// Longest accepted header.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

/// One tensor of a file.
struct TensorEntry {
  std::string name;
  std::string dtype;  // the format's name: "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin_bytes = 0;  // counted from the first byte after the header
  int64_t end_bytes = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // ordered by byte range
  std::map<std::string, std::string> metadata;

  bool operator==(const SafetensorsHeader&) const = default;
};

/// Bytes of one element of a dtype ("F32" -> 4), or nothing if the dtype is unknown.
std::optional<int64_t> dtype_bytes(std::string_view dtype);

/// The header in `json`, of a file with `data_bytes` bytes after it; `file` names the file in messages.
/// Each entry's range matches its shape and dtype, and the ranges cover the data without overlaps or gaps.
/// Pure. Throws DataError for anything else: invalid or deeply nested JSON, repeated names or keys, unknown
/// keys or dtypes, negative, fractional or overflowing numbers, ranges that are reversed, overlap, leave gaps
/// or exceed the file.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                           const std::string& file);

/// The first bytes of a file with these entries, in the given order: the length, then the JSON, padded with
/// spaces to a multiple of 8 bytes. Byte ranges are not checked. Throws InternalError for a repeated or
/// reserved name.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace braid::checkpoint
