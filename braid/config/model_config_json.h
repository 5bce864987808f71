// config.json, as Hugging Face's LlamaForCausalLM reads and writes it.
#pragma once

#include <string>
#include <string_view>

#include "braid/config/model_config.h"

namespace braid::config {

/// The model that the text of a config.json describes, validated. Absent keys have LlamaConfig's defaults;
/// RoPE's settings are read from rope_theta and rope_scaling, and from rope_parameters where newer releases
/// wrote it. Keys that do not change what is computed are passed over; a key that asks for something braid
/// does not compute (another activation, biases, dropout, another RoPE, another architecture, quantised
/// weights) throws ConfigError with the key, its value and `file_name`, as bad text does.
ModelConfig model_config_from_json(std::string_view text, std::string_view file_name);

/// The text of a config.json that reads back as `config`, here and in transformers 4 and 5. `dtype` is that
/// of the weights beside it: "float32" or "bfloat16".
std::string model_config_to_json(const ModelConfig& config, std::string_view dtype);

/// HF's rope_scaling object given as JSON text ({"rope_type": "linear", "factor": 2}), or none for "none" and
/// "null". Throws ConfigError, which begins with `name`.
RopeScaling rope_scaling_from_json(std::string_view text, std::string_view name);

}  // namespace braid::config
