// Files of options: a flat list of name and value, in YAML or JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/option_spec.h"

namespace braid::config {

/// The options in the file, in its order; YAML or JSON by its extension (.yaml, .yml, .json), names without
/// dashes in front. Names and values are not yet checked: labels ("run.yaml:12: max_steps") let
/// OptionTable::apply do that with the place. Throws ConfigError, with the file and the line where known, for
/// files that cannot be read or parsed, values that are maps or empty, and names given twice.
std::vector<Assignment> read_option_file(const std::string& path);

/// The same from JSON text.
std::vector<Assignment> parse_json_options(std::string_view text, std::string_view file_name);

/// The same from YAML text. A build without YAML throws ConfigError that names the build option.
std::vector<Assignment> parse_yaml_options(std::string_view text, std::string_view file_name);

/// Whether parse_yaml_options works in this build.
bool has_yaml();

}  // namespace braid::config
