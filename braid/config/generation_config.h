// generation_config.json: the token ids with which transformers begins and ends texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/model_config.h"

namespace braid::config {

struct GenerationConfig {
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_id;
  std::optional<int64_t> pad_token_id;

  bool operator==(const GenerationConfig&) const = default;
};

/// The ids in the text of the file `file_name`; other keys concern sampling alone. Throws ConfigError if it
/// is not a JSON object or an id is outside the model's vocabulary.
GenerationConfig generation_config_from_json(std::string_view text, std::string_view file_name,
                                             const ModelConfig& model);

/// The text of a generation_config.json with the model's ids.
std::string generation_config_to_json(const ModelConfig& model);

/// The directory's generation_config.json; nothing if it has none. Throws as generation_config_from_json.
std::optional<GenerationConfig> load_generation_config(const std::string& directory,
                                                       const ModelConfig& model);

}  // namespace braid::config
