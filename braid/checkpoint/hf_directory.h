// The weights of a Hugging Face model directory: model.safetensors, or shards with
// model.safetensors.index.json.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/checkpoint/safetensors.h"

namespace braid::checkpoint {

/// Largest shard file of an export; Hugging Face's default.
inline constexpr int64_t kMaxShardBytes = 5'000'000'000;

/// The weights of a directory, with every file open and checked. Tensors of old exports that every reader
/// recomputes (rotary_emb.inv_freq) are ignored. Concurrent reads are safe.
class HfWeights {
 public:
  /// Throws DataError if `directory` has no safetensors weights (with the remedy if it has
  /// pytorch_model.bin), has an adapter beside them, has both a single file and an index (one of them is
  /// stale), or if a shard is missing, damaged or lacks a tensor that the index lists in it, or if a file
  /// says that it is for another program than PyTorch's, whose matrices may be stored transposed.
  explicit HfWeights(const std::filesystem::path& directory);

  bool contains(const std::string& name) const { return file_of_.contains(name); }
  /// All tensors, sorted.
  std::vector<std::string> names() const;
  /// Throws DataError, suggesting the nearest name, if there is no such tensor.
  std::vector<int64_t> shape(const std::string& name) const;
  /// The file that holds a tensor. Throws as shape().
  const std::filesystem::path& file(const std::string& name) const;
  /// The dtypes of the tensors, by the format's names ("BF16").
  std::set<std::string> dtypes() const;
  const std::filesystem::path& directory() const { return directory_; }
  /// As SafetensorsReader::read_into.
  void read_into(const tensor::TensorSlice& slice, const at::Tensor& destination) const;
  void read_into(const std::string& name, const at::Tensor& destination) const;

  /// The tensors of the directory that are not in `used`, sorted: weights that no layer uses indicate a wrong
  /// configuration. Includes tensors of a shard that the index does not list there, "NAME (in FILE, not in
  /// the index)".
  std::vector<std::string> report_unused(std::span<const std::string> used) const;

 private:
  const SafetensorsReader& reader(const std::string& name) const;
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path directory_;
  std::vector<SafetensorsReader> files_;
  std::map<std::string, size_t> file_of_;  // tensor -> position in files_
  std::vector<std::string> unlisted_;
};

/// A tensor's name and size, for planning an export.
struct TensorBytes {
  std::string name;
  int64_t bytes = 0;

  bool operator==(const TensorBytes&) const = default;
};

/// One file of an export: its writer and its tensors.
struct ShardContents {
  int32_t rank = 0;
  std::vector<TensorBytes> tensors;

  bool operator==(const ShardContents&) const = default;
};

/// The files of an export in which rank r holds the tensors `ranks[r]`: in rank order, each rank's tensors in
/// their order. A new file begins where the next tensor would exceed `max_shard_bytes` (a larger tensor gets
/// its own file) and where the rank changes. A rank without tensors writes no file. Pure: every rank computes
/// the same plan from the gathered lists, and file i is shard_name(i, size). Throws ConfigError if
/// max_shard_bytes < 1, InternalError if two ranks hold the same name.
std::vector<ShardContents> plan_shards(std::span<const std::vector<TensorBytes>> ranks,
                                       int64_t max_shard_bytes = kMaxShardBytes);

/// "model-00002-of-00004.safetensors" for index 1 of count 4; "model.safetensors" for the only one.
/// Throws InternalError unless 0 <= index < count.
std::string shard_name(int index, int count);

/// A small file beside the weights: of the tokenizer, or generation_config.json.
struct SideFile {
  std::string name;
  std::string content;

  bool operator==(const SideFile&) const = default;
};

/// The names of the side files of model directories that belong to the model: what an export may write, and
/// what it removes of an earlier one.
std::span<const std::string_view> side_file_names();

// The steps of an export, with a barrier of all ranks after each of the first two:
//   1. rank 0:    begin_hf_export
//   2. each rank: write_hf_shard for each of its shards of the plan
//   3. rank 0:    write_hf_index
// An interrupted export leaves a directory that HfWeights rejects, never a mixture of old and new weights.

/// Creates `directory` and removes an earlier export: the weights (model.safetensors, the index, the shards
/// and partial files), config.json and the side files. Keeps other files. Throws OutputError if that fails.
void begin_hf_export(const std::filesystem::path& directory);

/// Writes file `index` of `count` with the metadata that Hugging Face's readers require. Throws as
/// write_safetensors does.
void write_hf_shard(const std::filesystem::path& directory, int index, int count,
                    std::span<const NamedTensor> tensors);

/// Removes an earlier export as begin_hf_export does, and the directory if nothing else is in it. Does
/// nothing if there is no such directory.
void remove_hf_export(const std::filesystem::path& directory);

/// Checks that every file of the plan exists and has its tensors, removes weights that are not part of it,
/// and writes the index (none for a single file). Throws DataError if a file is missing (are all ranks on
/// one file system?) or differs.
void write_hf_index(const std::filesystem::path& directory, std::span<const ShardContents> shards);

}  // namespace braid::checkpoint
