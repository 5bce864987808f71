// Option files: a flat list of names and values, in YAML or JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/option_spec.h"

namespace braid::config {

/// The options in the file, in file order; YAML or JSON by its extension (.yaml, .yml, .json), names without
/// leading dashes. Names and values are not yet checked: OptionTable::apply does so and reports their labels
/// ("run.yaml:12: max_steps"). Throws ConfigError, with the file and, if known, the line, for files that
/// cannot be read or parsed, values that are maps or empty, and names given twice.
std::vector<Assignment> read_option_file(const std::string& path);

/// The options in JSON text.
std::vector<Assignment> parse_json_options(std::string_view text, std::string_view file_name);

/// The options in YAML text. Throws ConfigError naming the build option in a build without YAML.
std::vector<Assignment> parse_yaml_options(std::string_view text, std::string_view file_name);

/// Whether parse_yaml_options works in this build.
bool has_yaml();

}  // namespace braid::config
