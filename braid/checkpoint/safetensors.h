// safetensors files: checked and read tensor by tensor, written under their name only once complete.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "braid/checkpoint/file.h"
#include "braid/checkpoint/safetensors_header.h"
#include "braid/tensor/tensor_slice.h"

namespace braid::checkpoint {

/// One open safetensors file. The whole header is checked when the file is opened; tensors are read on
/// request. Concurrent reads are safe.
class SafetensorsReader {
 public:
  /// Throws DataError if the file cannot be opened or is truncated, or as parse_safetensors_header does.
  explicit SafetensorsReader(const std::filesystem::path& path);

  /// All tensors, ordered by byte range.
  std::span<const TensorEntry> entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::filesystem::path& path() const { return file_.path(); }

  bool contains(std::string_view name) const;
  /// Throws DataError, suggesting the nearest name, if there is no such tensor.
  const TensorEntry& entry(std::string_view name) const;

  /// A copy of the tensor on the CPU, in the file's dtype. Throws DataError if there is no such tensor, braid
  /// does not support its dtype (F8, U16, ...), it has a value that is NaN or infinite, or the file cannot be
  /// read.
  at::Tensor tensor(std::string_view name) const;

  /// Fills `destination` with the slice's part of the tensor that it names. `destination` must have the sizes
  /// of the part; it may be a view (the rows of a fused parameter) on any device and keeps its dtype:
  /// floating-point types are converted (rounding to nearest), other dtypes must be equal. Reads only the
  /// rows (of the first dimension) in which the part lies; needs at most 16 MiB (or one row) of additional
  /// memory. Not recorded by autograd. Throws ShapeError if the file's tensor has other sizes than the
  /// slice's whole, or if sizes or dtype do not match; DataError as tensor() does (`destination` may then be
  /// partly filled), and for a value that is NaN, infinite or too large for the destination's dtype, with its
  /// place in the tensor.
  void read_into(const tensor::TensorSlice& slice, const at::Tensor& destination) const;

  /// The same for the whole tensor.
  void read_into(std::string_view name, const at::Tensor& destination) const;

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

/// Writes `tensors` in this order, each in its own dtype, replacing `path` only once everything is on the
/// disk (ReplacingFile). Copies one tensor at a time to the CPU, only if it is not there or not contiguous.
/// Throws DataError if the disk is full or the file cannot be written (no partial file remains), ShapeError
/// for a dtype that the reader does not support, InternalError for a repeated name.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace braid::checkpoint
