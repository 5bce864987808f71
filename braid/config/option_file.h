// Option files: a flat list of names and values, in YAML or JSON.
#pragma once

#include <string>
#include <vector>

#include "braid/config/error_list.h"
#include "braid/config/file_value.h"
#include "braid/config/option_spec.h"

namespace braid::config {

/// The options in the file, in file order; YAML or JSON by its extension (.yaml, .yml, .json), names without
/// leading dashes. Names and values are not yet checked: OptionTable::apply does so and reports their labels
/// ("run.yaml:12: max_steps"). Throws ConfigError for values that are maps or empty and names given twice,
/// all at once, and as read_file_value does.
std::vector<Assignment> read_option_file(const std::string& path);

/// The options in a file's content.
std::vector<Assignment> options_of(const FileValue& file);

/// The same, with the errors about single options added to `errors` in place of thrown.
std::vector<Assignment> options_of(const FileValue& file, ErrorList& errors);

}  // namespace braid::config
