// Models available by name.
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

/// Every preset, small ones first.
std::vector<Preset> presets();

/// The preset with the name `name` (any of its names, ignoring case), or nothing.
std::optional<ModelConfig> find_preset(std::string_view name);

/// The model given by a directory that holds config.json, by such a file, or by a preset; a directory with a
/// config.json takes precedence over a preset of the same name. Throws ConfigError, which suggests the
/// nearest preset or a directory with config.json, DataError for a file of another kind (a Git LFS pointer),
/// and what model_config_from_json throws.
ModelConfig load_model_config(const std::string& name_or_path);

}  // namespace braid::config
