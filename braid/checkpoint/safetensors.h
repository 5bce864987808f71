// safetensors files: read checked and tensor by tensor, written so that a half-written one never carries the
// name.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "braid/checkpoint/file.h"
#include "braid/checkpoint/safetensors_header.h"

namespace braid::checkpoint {

/// Rows (of the first dimension) [begin, end).
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// One open safetensors file. The header is checked as a whole when the file is opened; tensors are read when
/// asked for. Reading from several threads at once is safe.
class SafetensorsReader {
 public:
  /// Throws DataError if the file cannot be opened, is cut short, or its header is not as
  /// parse_safetensors_header wants it.
  explicit SafetensorsReader(const std::filesystem::path& path);

  /// All tensors, by byte range.
  std::span<const TensorEntry> entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::filesystem::path& path() const { return file_.path(); }

  bool contains(std::string_view name) const;
  /// Throws DataError if there is no such tensor, with the nearest name there is.
  const TensorEntry& entry(std::string_view name) const;

  /// A copy of the tensor on the CPU, in the file's dtype. Throws DataError if there is no such tensor, its
  /// dtype is one that braid does not compute with (F8, U16, ...), or the file cannot be read.
  at::Tensor tensor(std::string_view name) const;

  /// Fills `destination` with the tensor, or with `rows` of it. `destination` has the shape of what is read,
  /// may be a view (the rows of a fused parameter), on any device, and keeps its dtype: one floating-point
  /// type is converted to another (rounding to nearest), other dtypes must agree. Reads the bytes of `rows`
  /// only; needs at most 16 MiB (or one row) beside `destination`. Not recorded by autograd. Throws
  /// ShapeError if shape or dtype do not fit, DataError as tensor() does (`destination` may then be half
  /// filled).
  void read_into(std::string_view name, const at::Tensor& destination,
                 std::optional<RowRange> rows = std::nullopt) const;

 private:
  ReadableFile file_;
  int64_t data_offset_bytes_ = 0;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> index_;
};

/// A tensor to write, under its name.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // may be a view, and on any device
};

/// Writes `tensors` in this order, each in its own dtype, replacing `path` only once all is on the disk
/// (ReplacingFile). Copies one tensor at a time to the CPU, and only one that is not there or not contiguous.
/// Throws DataError if the disk is full or the file cannot be written (nothing of it is left then),
/// ShapeError for a dtype that the reader does not read, InternalError for a name that is there twice.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace braid::checkpoint
