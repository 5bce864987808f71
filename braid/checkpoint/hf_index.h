// model.safetensors.index.json: which shard of a Hugging Face directory holds which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace braid::checkpoint {

/// Tensor name -> name of the shard file, both as in the index.
using WeightMap = std::map<std::string, std::string>;

/// The weight map in `json`; other keys of the index are passed over. `file` names the file in messages.
/// Pure. Throws DataError for broken JSON, a map that is missing, empty or there twice, a tensor twice, and a
/// shard that is not a plain name of a .safetensors file in the same directory ("../x.safetensors" and
/// "/x.safetensors" are refused).
WeightMap parse_hf_index(std::string_view json, const std::string& file);

/// The index as Hugging Face writes it; `total_bytes` is the size of all tensors together.
std::string format_hf_index(const WeightMap& map, int64_t total_bytes);

}  // namespace braid::checkpoint
