#include <yaml-cpp/yaml.h>

#include "braid/base/error.h"
#include "braid/config/option_file.h"

namespace braid::config {
namespace {

std::string place(std::string_view file_name, const YAML::Mark& mark) {
  return mark.is_null() ? std::string(file_name) : cat(file_name, ":", mark.line + 1);
}

std::string scalar_text(const YAML::Node& value, const std::string& label) {
  require<ConfigError>(!value.IsNull(), label, " has no value; omit it to keep the default");
  require<ConfigError>(value.IsScalar(), label, " must be a single value, got a ",
                       value.IsMap() ? "map" : "list", "; options are a flat list of names and values");
  return value.Scalar();
}

std::vector<Assignment> assignments_of(const YAML::Node& document, std::string_view file_name) {
  std::vector<Assignment> assignments;
  if (document.IsNull()) return assignments;
  require<ConfigError>(document.IsMap(), place(file_name, document.Mark()),
                       ": expected lines of the form name: value");
  for (const auto& entry : document) {
    const std::string where = place(file_name, entry.first.Mark());
    require<ConfigError>(entry.first.IsScalar(), where, ": option names must be plain strings");
    const std::string name = entry.first.Scalar();
    const std::string label = where + ": " + name;
    for (const Assignment& earlier : assignments) {
      require<ConfigError>(earlier.name != name, label, " is given twice; keep one");
    }
    Assignment given{.name = name, .values = {}, .label = label};
    if (entry.second.IsSequence()) {
      for (const YAML::Node& item : entry.second) given.values.push_back(scalar_text(item, label));
    } else {
      given.values.push_back(scalar_text(entry.second, label));
    }
    assignments.push_back(std::move(given));
  }
  return assignments;
}

}  // namespace

std::vector<Assignment> parse_yaml_options(std::string_view text, std::string_view file_name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    require<ConfigError>(documents.size() <= 1, file_name, " holds ", documents.size(),
                         " YAML documents; an option file holds one");
    return documents.empty() ? std::vector<Assignment>() : assignments_of(documents.front(), file_name);
  } catch (const YAML::Exception& error) {
    throw ConfigError(cat(place(file_name, error.mark), ": not valid YAML: ", error.msg));
  }
}

bool has_yaml() { return true; }

}  // namespace braid::config
