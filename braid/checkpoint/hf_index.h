// model.safetensors.index.json, the map from tensors to shards in a Hugging Face directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace braid::checkpoint {

/// Tensor name -> name of the shard file, both as in the index.
using WeightMap = std::map<std::string, std::string>;

/// The weight map in `json`; other keys of the index are ignored. `file` names the file in messages. Pure.
/// Throws DataError for invalid JSON, a missing, empty or repeated map, a repeated tensor, and a shard that
/// is not the plain name of a .safetensors file in the same directory ("../x.safetensors" and
/// "/x.safetensors" are rejected).
WeightMap parse_hf_index(std::string_view json, const std::string& file);

/// The index in Hugging Face's format; `total_bytes` is the total size of all tensors.
std::string format_hf_index(const WeightMap& map, int64_t total_bytes);

}  // namespace braid::checkpoint
