// config.json as read and written by Hugging Face's LlamaForCausalLM.
#pragma once

#include <string>
#include <string_view>

#include "braid/config/model_config.h"

namespace braid::config {

/// The model described by the text of a config.json, validated. Absent keys have LlamaConfig's defaults;
/// RoPE's settings are read from rope_theta and rope_scaling, and from rope_parameters as written by newer
/// releases. Keys that do not change what is computed are ignored. Throws ConfigError with the key, its value
/// and `file_name` for settings that braid does not support (another activation, biases, dropout, another
/// RoPE, another architecture, quantised weights), and for invalid text.
ModelConfig model_config_from_json(std::string_view text, std::string_view file_name);

/// The text of a config.json that reads back as `config`, here and in transformers 4 and 5. `dtype` is the
/// dtype of the accompanying weights, "float32", "bfloat16" or "float16".
std::string model_config_to_json(const ModelConfig& config, std::string_view dtype);

/// HF's rope_scaling object given as JSON text ({"rope_type": "linear", "factor": 2}); the default for "none"
/// and "null". Throws ConfigError whose message begins with `name`.
RopeScaling rope_scaling_from_json(std::string_view text, std::string_view name);

}  // namespace braid::config
