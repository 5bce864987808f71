#include "braid/config/option_file.h"

#include <algorithm>
#include <filesystem>

#include "braid/base/error.h"
#include "braid/config/json.h"
#include "braid/config/text_file.h"

namespace braid::config {
namespace {

using nlohmann::json;

// The line of the first `"key":` in the text; the JSON library keeps no positions. Nothing if the key is
// written with escapes.
std::optional<size_t> line_of(std::string_view text, const std::string& key) {
  const std::string quoted = "\"" + key + "\"";
  for (size_t at = text.find(quoted); at != text.npos; at = text.find(quoted, at + 1)) {
    const size_t after = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (after != text.npos && text[after] == ':') {
      return 1 + static_cast<size_t>(
                     std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    }
  }
  return std::nullopt;
}

std::string scalar_text(const json& value, const std::string& label) {
  require<ConfigError>(!value.is_null(), label, " has no value; omit it to keep the default");
  require<ConfigError>(value.is_primitive(), label, " must be a single value, got ", json_text(value),
                       "; options are a flat list of names and values");
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

}  // namespace

std::vector<Assignment> parse_json_options(std::string_view text, std::string_view file_name) {
  std::vector<std::string> keys;
  const auto collect_keys = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) keys.push_back(parsed.get<std::string>());
    return true;
  };
  const json object = parse_json(text, file_name, collect_keys);
  require<ConfigError>(object.is_object(), file_name, " must hold an object of option names and values, got ",
                       json_text(object));
  std::vector<Assignment> assignments;
  for (const std::string& key : keys) {
    const auto line = line_of(text, key);
    const std::string label = cat(file_name, line ? cat(":", *line) : "", ": ", key);
    for (const Assignment& earlier : assignments) {
      require<ConfigError>(earlier.name != key, label, " is given twice; keep one");
    }
    const json& value = object.at(key);
    Assignment given{.name = key, .values = {}, .label = label};
    if (value.is_array()) {
      for (const json& item : value) given.values.push_back(scalar_text(item, label));
    } else {
      given.values.push_back(scalar_text(value, label));
    }
    assignments.push_back(std::move(given));
  }
  return assignments;
}

std::vector<Assignment> read_option_file(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".json") return parse_json_options(read_text_file(path), path);
  require<ConfigError>(extension == ".yaml" || extension == ".yml", "'", path,
                       "' is not an option file: its name must end in .yaml, .yml or .json "
                       "(flags begin with two dashes)");
  return parse_yaml_options(read_text_file(path), path);
}

}  // namespace braid::config
