#include "braid/checkpoint/hf_directory.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <set>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"
#include "braid/base/text.h"
#include "braid/checkpoint/file.h"
#include "braid/checkpoint/hf_index.h"
#include "braid/checkpoint/json_text.h"

namespace braid::checkpoint {
namespace {

/// Whether a tensor is one of old exports that every reader recomputes (the rotary frequencies).
bool is_recomputed_tensor(const std::string& name) { return name.ends_with("rotary_emb.inv_freq"); }

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = 100'000'000;

constexpr std::array<std::string_view, 10> kSideFiles = {
    "tokenizer.model",   "tokenizer.json",        "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.json",    "chat_template.jinja",   "vocab.json",
    "merges.txt",        "generation_config.json"};

bool file_exists(const std::filesystem::path& path) {
  std::error_code ignored;  // an inaccessible file counts as absent
  return std::filesystem::exists(path, ignored);
}

// Exactly "model-00001-of-00002.safetensors": the shards that an export may remove.
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return std::equal(name.begin(), name.end(), kPattern.begin(), kPattern.end(), [](char c, char pattern) {
    return pattern == '#' ? c >= '0' && c <= '9' : c == pattern;
  });
}

// Removes every file of an export except those in `kept`.
void remove_weights(const std::filesystem::path& directory, const std::set<std::string>& kept) {
  constexpr std::string_view kPartial = ".partial";
  std::vector<std::string> stale;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::string_view base = name;
    if (base.ends_with(kPartial)) base.remove_suffix(kPartial.size());
    const bool weights = base == kSingleFile || base == kIndexFile || is_shard_name(base);
    if (weights && !kept.contains(name)) stale.push_back(name);
  }
  require<DataError>(!error, directory.string(), ": cannot be listed: ", error.message(),
                     "; check its permissions");
  // The index goes first: without it, the rest of a sharded export is not read.
  std::sort(stale.begin(), stale.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a != kIndexFile, std::string_view(a)) < std::pair(b != kIndexFile, std::string_view(b));
  });
  for (const std::string& name : stale) remove_file(directory / name);
}

[[noreturn]] void throw_no_weights(const std::filesystem::path& directory) {
  const std::string path = directory.string();
  std::error_code ignored;
  require<DataError>(std::filesystem::is_directory(directory, ignored), path,
                     ": is not a directory; pass one with config.json and model.safetensors");
  require<DataError>(
      !file_exists(directory / "pytorch_model.bin") &&
          !file_exists(directory / "pytorch_model.bin.index.json"),
      path,
      ": has its weights in pytorch_model.bin, a Python pickle, which braid does not read; convert it with "
      "Hugging Face transformers: AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW_DIR)");
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    require<DataError>(!is_shard_name(entry.path().filename().string()), path,
                       ": has shards of a model but no ", kIndexFile,
                       "; the export or download did not finish: repeat it");
  }
  throw DataError(cat(path, ": has neither ", kSingleFile, " nor ", kIndexFile, "; check the path"));
}

// PyTorch's files, and those of MLX, which keep its order of dimensions, say so or say nothing. PaddlePaddle,
// TensorFlow and Flax store the matrices of linear layers transposed: a square one would be read wrongly.
void require_pytorch_order(const SafetensorsReader& file) {
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second == "pt" || format->second == "mlx") return;
  throw DataError(cat(file.path().string(), ": is of the format ", printable(format->second),
                      " (in its metadata), not of PyTorch's, \"pt\", and may store matrices transposed; "
                      "convert it with the tools of the program that wrote it"));
}

}  // namespace

HfWeights::HfWeights(const std::filesystem::path& directory) : directory_(directory) {
  require<DataError>(
      !file_exists(directory / "adapter_config.json"), directory.string(),
      ": has an adapter beside the model (adapter_config.json), which changes what it computes and "
      "which braid does not read; merge it into the weights, or remove its files");
  const bool single = file_exists(directory / kSingleFile);
  const bool sharded = file_exists(directory / kIndexFile);
  require<DataError>(!single || !sharded, directory.string(), ": has both ", kSingleFile, " and ", kIndexFile,
                     "; remove the one that is out of date");
  if (sharded) {
    open_shards(directory / kIndexFile);
  } else if (single) {
    reject_foreign_file(directory / kSingleFile, FileFormat::kSafetensors);
    files_.emplace_back(directory / kSingleFile);
    for (const TensorEntry& entry : files_.front().entries()) {
      if (!is_recomputed_tensor(entry.name)) file_of_.emplace(entry.name, 0);
    }
  } else {
    throw_no_weights(directory);
  }
  for (const SafetensorsReader& file : files_) require_pytorch_order(file);
}

void HfWeights::open_shards(const std::filesystem::path& index) {
  reject_foreign_file(index, FileFormat::kJson);
  const WeightMap map = parse_hf_index(read_text(index, kMaxIndexBytes), index.string());
  std::map<std::string, size_t> position;
  for (const auto& [tensor, shard] : map) {
    const auto [found, is_new] = position.emplace(shard, files_.size());
    if (is_new) {
      require<DataError>(file_exists(directory_ / shard), index.string(), ": names the shard ",
                         printable(shard), ", which is not in the directory; download or copy it too");
      reject_foreign_file(directory_ / shard, FileFormat::kSafetensors);
      files_.emplace_back(directory_ / shard);
    }
    require<DataError>(files_[found->second].contains(tensor), index.string(), ": lists ", printable(tensor),
                       " in ", printable(shard),
                       ", which does not contain it; index and shards belong to different models: download "
                       "all of them again");
    if (!is_recomputed_tensor(tensor)) file_of_.emplace(tensor, found->second);
  }
  for (const auto& [shard, file] : position) {
    for (const TensorEntry& entry : files_[file].entries()) {
      const auto listed = map.find(entry.name);
      if (listed != map.end() && listed->second == shard) continue;
      if (!is_recomputed_tensor(entry.name))
        unlisted_.push_back(cat(entry.name, " (in ", shard, ", not in the index)"));
    }
  }
}

std::vector<std::string> HfWeights::names() const {
  std::vector<std::string> result;
  for (const auto& [name, file] : file_of_) result.push_back(name);
  return result;
}

const SafetensorsReader& HfWeights::reader(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return files_[found->second];
  const auto near = nearest(name, names());
  throw DataError(cat(directory_.string(), ": has no tensor ", printable(name),
                      near ? cat(" (nearest: ", printable(*near), ")") : "",
                      "; check that config.json belongs to these weights"));
}

std::vector<int64_t> HfWeights::shape(const std::string& name) const {
  return reader(name).entry(name).shape;
}

const std::filesystem::path& HfWeights::file(const std::string& name) const { return reader(name).path(); }

std::set<std::string> HfWeights::dtypes() const {
  std::set<std::string> result;
  for (const auto& [name, file] : file_of_) result.insert(files_[file].entry(name).dtype);
  return result;
}

void HfWeights::read_into(const tensor::TensorSlice& slice, const at::Tensor& destination) const {
  reader(slice.name).read_into(slice, destination);
}

void HfWeights::read_into(const std::string& name, const at::Tensor& destination) const {
  reader(name).read_into(name, destination);
}

std::vector<std::string> HfWeights::report_unused(std::span<const std::string> used) const {
  const std::unordered_set<std::string> known(used.begin(), used.end());
  std::vector<std::string> unused = unlisted_;
  for (const auto& [name, file] : file_of_) {
    if (!known.contains(name)) unused.push_back(name);
  }
  std::sort(unused.begin(), unused.end());
  return unused;
}

std::vector<ShardContents> plan_shards(std::span<const std::vector<TensorBytes>> ranks,
                                       int64_t max_shard_bytes) {
  require<ConfigError>(max_shard_bytes >= 1, "max_shard_bytes must be >= 1, got ", max_shard_bytes);
  std::vector<ShardContents> shards;
  std::unordered_set<std::string> names;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    int64_t shard_bytes = 0;
    bool first = true;
    for (const TensorBytes& tensor : ranks[rank]) {
      require<InternalError>(names.insert(tensor.name).second, "tensor ", printable(tensor.name),
                             " is exported twice, the second time by rank ", rank);
      require<InternalError>(tensor.bytes >= 0, "tensor ", printable(tensor.name), " has a negative size, ",
                             tensor.bytes, " bytes");
      // Cannot overflow: shard_bytes exceeds the limit only for a tensor alone in its file.
      if (first || shard_bytes > max_shard_bytes || tensor.bytes > max_shard_bytes - shard_bytes) {
        shards.push_back({.rank = static_cast<int32_t>(rank), .tensors = {}});
        shard_bytes = 0;
        first = false;
      }
      shards.back().tensors.push_back(tensor);
      shard_bytes += tensor.bytes;
    }
  }
  return shards;
}

std::string shard_name(int index, int count) {
  require<InternalError>(0 <= index && index < count, "shard ", index, " of ", count, " does not exist");
  if (count == 1) return kSingleFile;
  std::ostringstream name;
  name << std::setfill('0') << "model-" << std::setw(5) << index + 1 << "-of-" << std::setw(5) << count
       << ".safetensors";
  return name.str();
}

std::span<const std::string_view> side_file_names() { return kSideFiles; }

void begin_hf_export(const std::filesystem::path& directory) {
  make_directory(directory);
  remove_weights(directory, {});
  remove_file(directory / "config.json");
  for (const std::string_view name : kSideFiles) remove_file(directory / name);
}

void remove_hf_export(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) return;
  begin_hf_export(directory);
  if (std::filesystem::is_empty(directory, ignored)) std::filesystem::remove(directory, ignored);
}

void write_hf_shard(const std::filesystem::path& directory, int index, int count,
                    std::span<const NamedTensor> tensors) {
  write_safetensors(directory / shard_name(index, count), tensors, {{"format", "pt"}});
}

void write_hf_index(const std::filesystem::path& directory, std::span<const ShardContents> shards) {
  require<InternalError>(!shards.empty(), "an export without tensors");
  const int count = static_cast<int>(shards.size());
  WeightMap map;
  std::set<std::string> files;
  int64_t total_bytes = 0;
  for (int i = 0; i < count; ++i) {
    const std::string file = shard_name(i, count);
    const ShardContents& shard = shards[static_cast<size_t>(i)];
    require<DataError>(file_exists(directory / file), (directory / file).string(), ": was written by rank ",
                       shard.rank, " but is missing; use a directory on a file system shared by all ranks");
    const SafetensorsReader reader(directory / file);
    require<DataError>(reader.entries().size() == shard.tensors.size(), (directory / file).string(), ": has ",
                       counted(std::ssize(reader.entries()), "tensor"), " instead of ", shard.tensors.size(),
                       "; another run is writing to this directory: use one directory per run");
    for (const TensorBytes& tensor : shard.tensors) {
      const TensorEntry& entry = reader.entry(tensor.name);
      require<DataError>(entry.end_bytes - entry.begin_bytes == tensor.bytes, (directory / file).string(),
                         ": tensor ", printable(tensor.name), " has ",
                         counted(entry.end_bytes - entry.begin_bytes, "byte"), " instead of ", tensor.bytes,
                         "; another run is writing to this directory: use one directory per run");
      map.emplace(tensor.name, file);
      total_bytes += tensor.bytes;
    }
    files.insert(file);
  }
  remove_weights(directory, files);
  if (count == 1) return;
  ReplacingFile index(directory / kIndexFile);
  index.write(format_hf_index(map, total_bytes));
  index.commit();
}

}  // namespace braid::checkpoint
