#include <yaml-cpp/yaml.h>

#include "braid/base/error.h"
#include "braid/config/file_value.h"

namespace braid::config {
namespace {

std::string place(std::string_view file_name, const YAML::Mark& mark) {
  return mark.is_null() ? std::string(file_name) : cat(file_name, ":", mark.line + 1);
}

class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view file_name) : file_name_(file_name) {}

  FileValue build(const YAML::Node& node, size_t depth = 0) {
    require_within_limits(file_name_, depth, ++count_);
    FileValue value;
    value.where = place(file_name_, node.Mark());
    if (node.IsScalar()) {
      value.kind = FileValue::Kind::kScalar;
      value.text = node.Scalar();
    } else if (node.IsSequence()) {
      value.kind = FileValue::Kind::kList;
      for (const YAML::Node& item : node) value.items.push_back(build(item, depth + 1));
    } else if (node.IsMap()) {
      value.kind = FileValue::Kind::kMap;
      for (const auto& entry : node) {
        const std::string where = place(file_name_, entry.first.Mark());
        require<ConfigError>(entry.first.IsScalar(), where, ": option names must be plain strings");
        FileValue item = build(entry.second, depth + 1);
        item.where = where;
        item.key = entry.first.Scalar();
        value.items.push_back(std::move(item));
      }
    }
    return value;
  }

 private:
  std::string_view file_name_;
  size_t count_ = 0;
};

}  // namespace

FileValue parse_yaml_value(std::string_view text, std::string_view file_name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    require<ConfigError>(documents.size() <= 1, file_name, " holds ", documents.size(),
                         " YAML documents; an option file holds one");
    FileValue nothing;
    nothing.where = file_name;
    return documents.empty() ? nothing : TreeBuilder(file_name).build(documents.front());
  } catch (const YAML::Exception& error) {
    throw ConfigError(cat(place(file_name, error.mark), ": not valid YAML: ", error.msg));
  }
}

bool has_yaml() { return true; }

}  // namespace braid::config
