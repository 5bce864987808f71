// Models known by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/model_config.h"

namespace braid::config {

struct Preset {
  std::string name;
  std::vector<std::string> other_names;
  std::string note;
  ModelConfig config;
};

/// Every preset, small ones first. A new vector each time.
std::vector<Preset> presets();

/// The preset called `name` (any of its names, in any letter case), or nothing.
std::optional<ModelConfig> find_preset(std::string_view name);

/// The model named by a directory that holds config.json, by such a file, or by a preset; a directory with a
/// config.json wins over a preset of its name. Throws ConfigError, which names the nearest preset or says
/// that a directory with config.json was expected, and what model_config_from_json throws.
ModelConfig load_model_config(const std::string& name_or_path);

}  // namespace braid::config
