// The content of a YAML or JSON file as one kind of tree, with the place of each value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid::config {

/// A value in a file.
struct FileValue {
  enum class Kind : uint8_t { kNothing, kScalar, kList, kMap };

  Kind kind = Kind::kNothing;
  std::string where;             ///< "run.yaml:12", or "run.yaml" where the line is not known
  std::string key;               ///< of an entry of a map
  std::string text;              ///< of a scalar, as written; numbers and switches are not yet read
  std::vector<FileValue> items;  ///< of a list; the entries of a map, in file order, repeated keys included
};

/// The content of the file; YAML or JSON by its extension (.yaml, .yml, .json). An empty file is kNothing.
/// Throws ConfigError, with the file and, if known, the line, for files that cannot be read or parsed, are
/// nested deeper than 32 levels or hold more than 10,000 values (YAML's aliases count each time).
FileValue read_file_value(const std::string& path);

/// The value in JSON text.
FileValue parse_json_value(std::string_view text, std::string_view file_name);

/// The value in YAML text. Throws ConfigError naming the build option in a build without YAML.
FileValue parse_yaml_value(std::string_view text, std::string_view file_name);

/// Whether parse_yaml_value works in this build.
bool has_yaml();

/// "a map", "a list", "a single value" or "nothing", for messages.
std::string_view kind_text(const FileValue& value);

/// The texts of a scalar, or of the scalars in a list. Throws ConfigError, beginning with `label`, if `value`
/// is something else.
std::vector<std::string> value_texts(const FileValue& value, std::string_view label);

/// Throws ConfigError if a value at `depth` (the whole file has depth 0), the `count`-th of its file, is
/// beyond the limits of read_file_value.
void require_within_limits(std::string_view file_name, size_t depth, size_t count);

}  // namespace braid::config
