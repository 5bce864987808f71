#include "braid/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/checkpoint/json_text.h"
#include "braid/checkpoint/unfit_value.h"

namespace braid::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files hold little-endian numbers, read without conversion");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kStagingBytes = 16 << 20;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kReadable = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

std::optional<at::ScalarType> scalar_type(std::string_view dtype) {
  for (const auto& [name, type] : kReadable) {
    if (name == dtype) return type;
  }
  return std::nullopt;
}

std::string dtype_of(const NamedTensor& named) {
  require<InternalError>(named.tensor.defined(), "tensor ", printable(named.name),
                         " to be written is undefined");
  for (const auto& [name, type] : kReadable) {
    if (type == named.tensor.scalar_type()) return std::string(name);
  }
  throw ShapeError(cat("tensor ", printable(named.name), " of dtype ", named.tensor.scalar_type(),
                       " cannot be written to a safetensors file; convert it to float32 or bfloat16 first"));
}

std::span<std::byte> writable_bytes(const at::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()};
}

int64_t read_header_length(const ReadableFile& file) {
  const std::string path = file.path().string();
  require<DataError>(file.size_bytes() >= kLengthBytes, path, ": has ", counted(file.size_bytes(), "byte"),
                     ", fewer than the 8 of a safetensors file's first field; copy or download it again");
  uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  require<DataError>(length <= static_cast<uint64_t>(kMaxHeaderBytes), path, ": declares a header of ",
                     length, " bytes, more than ", kMaxHeaderBytes,
                     "; the file is damaged or not a safetensors file");
  require<DataError>(length <= static_cast<uint64_t>(file.size_bytes() - kLengthBytes), path,
                     ": declares a header of ", counted(static_cast<int64_t>(length), "byte"),
                     ", but ends after ", file.size_bytes(),
                     "; the file is truncated: copy or download it again");
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path) {
  const int64_t length = read_header_length(file_);
  std::string json(static_cast<size_t>(length), '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(json)));
  data_offset_bytes_ = kLengthBytes + length;
  header_ = parse_safetensors_header(json, file_.size_bytes() - data_offset_bytes_, path.string());
  for (size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

bool SafetensorsReader::contains(std::string_view name) const { return index_.contains(std::string(name)); }

const TensorEntry& SafetensorsReader::entry(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) return header_.entries[found->second];
  std::vector<std::string> names;
  for (const TensorEntry& other : header_.entries) names.push_back(other.name);
  const auto near = nearest(name, names);
  throw DataError(cat(path().string(), ": has no tensor ", printable(name),
                      near ? cat(" (nearest: ", printable(*near), ")") : "",
                      "; check that it belongs to this model"));
}

at::Tensor SafetensorsReader::tensor(std::string_view name) const {
  const TensorEntry& found = entry(name);
  const auto type = scalar_type(found.dtype);
  require<DataError>(type.has_value(), path().string(), ": tensor ", printable(name), " has dtype ",
                     found.dtype, ", which braid does not support; convert it to F32 or BF16");
  at::Tensor result = at::empty(found.shape, at::TensorOptions().dtype(*type).device(at::kCPU));
  read_into(name, result);
  return result;
}

void SafetensorsReader::read_into(std::string_view name, const at::Tensor& destination) const {
  read_into(tensor::whole_tensor(std::string(name), entry(name).shape), destination);
}

void SafetensorsReader::read_into(const tensor::TensorSlice& slice, const at::Tensor& destination) const {
  const TensorEntry& found = entry(slice.name);
  const std::string what = cat(path().string(), ": tensor ", printable(slice.name));
  const auto type = scalar_type(found.dtype);
  require<DataError>(type.has_value(), what, " has dtype ", found.dtype,
                     ", which braid does not support; convert it to F32 or BF16");
  const at::ScalarType wanted = destination.scalar_type();
  require<ShapeError>(*type == wanted || (at::isFloatingType(*type) && at::isFloatingType(wanted)), what,
                      " of dtype ", found.dtype, " cannot be read into a tensor of dtype ", wanted,
                      "; the dtypes must be equal");
  tensor::validate(slice);
  require<ShapeError>(slice.whole == found.shape, what, " has shape ", at::IntArrayRef(found.shape), ", not ",
                      at::IntArrayRef(slice.whole),
                      "; check that the file matches the model's configuration");
  const std::vector<int64_t> sizes = slice.sizes();
  require<ShapeError>(destination.sizes() == at::IntArrayRef(sizes), what, " has shape ",
                      at::IntArrayRef(sizes), slice.is_whole() ? "" : " in the part to read",
                      ", but the destination has ", destination.sizes(),
                      "; check that the file matches the model's configuration");
  if (destination.numel() == 0) return;

  const at::NoGradGuard no_grad;
  const tensor::Range rows = sizes.empty() ? tensor::Range{0, 1} : slice.part[0];
  const int64_t row_bytes =
      (found.end_bytes - found.begin_bytes) / (found.shape.empty() ? 1 : found.shape[0]);
  const int64_t start_bytes = data_offset_bytes_ + found.begin_bytes + rows.begin * row_bytes;
  const bool whole_rows = std::equal(sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end(),
                                     found.shape.begin() + (sizes.empty() ? 0 : 1));
  const bool same = whole_rows && destination.is_cpu() && *type == wanted && destination.is_contiguous();
  // Bytes other than 0 and 1 are not valid bools; bools are read as bytes and compared, so that damaged files
  // are harmless.
  const bool boolean = *type == at::kBool;
  // `begin_bytes`: the place of the first byte in the tensor.
  const auto check = [&](std::span<const std::byte> bytes, int64_t begin_bytes) {
    const auto unfit = first_unfit_value(bytes, *type, wanted);
    if (!unfit) return;
    int64_t rest = unfit->index + begin_bytes / dtype_bytes(found.dtype).value();
    std::vector<int64_t> place(found.shape.size());
    for (size_t i = place.size(); i-- > 0; rest /= found.shape[i]) place[i] = rest % found.shape[i];
    require<DataError>(!std::isfinite(unfit->value), what, " has ", to_text(unfit->value), " at ",
                       at::IntArrayRef(place), ", which ",
                       wanted == at::kHalf ? "float16" : "the dtype asked for",
                       " cannot hold; train in bfloat16 or float32 instead");
    throw DataError(cat(what, " has ", to_text(unfit->value), " at ", at::IntArrayRef(place),
                        ", which is no weight; the file is damaged, or the run that wrote it diverged: use "
                        "another copy or an earlier export"));
  };
  if (same && !boolean) {
    constexpr size_t kBlockBytes = 1 << 20;  // checked while it is in the cache
    std::span<std::byte> rest = writable_bytes(destination);
    for (int64_t done = 0; !rest.empty();) {
      const std::span<std::byte> block = rest.first(std::min(kBlockBytes, rest.size()));
      file_.read(start_bytes + done, block);
      check(block, rows.begin * row_bytes + done);
      done += static_cast<int64_t>(block.size());
      rest = rest.subspan(block.size());
    }
    return;
  }
  const at::Tensor target = sizes.empty() ? destination.unsqueeze(0) : destination;
  const int64_t block_rows = std::clamp<int64_t>(kStagingBytes / row_bytes, 1, rows.size());
  std::vector<int64_t> block_shape = found.shape.empty() ? std::vector<int64_t>{1} : found.shape;
  block_shape[0] = block_rows;
  const at::Tensor staging =
      at::empty(block_shape, at::TensorOptions().dtype(boolean ? at::kByte : *type).device(at::kCPU));
  for (int64_t row = 0; row < rows.size(); row += block_rows) {
    const int64_t count = std::min(block_rows, rows.size() - row);
    at::Tensor block = staging.narrow(0, 0, count);
    file_.read(start_bytes + row * row_bytes, writable_bytes(block));
    check(writable_bytes(block), (rows.begin + row) * row_bytes);
    for (size_t i = 1; i < slice.part.size(); ++i) {
      block = block.narrow(static_cast<int64_t>(i), slice.part[i].begin, slice.part[i].size());
    }
    target.narrow(0, row, count).copy_(boolean ? block.ne(0) : block);
  }
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  int64_t offset_bytes = 0;
  for (const NamedTensor& named : tensors) {
    const std::string dtype = dtype_of(named);
    const int64_t end_bytes = offset_bytes + static_cast<int64_t>(named.tensor.nbytes());
    header.entries.push_back({.name = named.name,
                              .dtype = dtype,
                              .shape = named.tensor.sizes().vec(),
                              .begin_bytes = offset_bytes,
                              .end_bytes = end_bytes});
    offset_bytes = end_bytes;
  }
  const std::string head = format_safetensors_header(header);

  ReplacingFile file(path);
  file.write(head);
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = named.tensor.detach().to(at::kCPU).contiguous();
    file.write(std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()));
  }
  file.commit();
}

}  // namespace braid::checkpoint
