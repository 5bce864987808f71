#include "braid/config/option_json.h"

#include "braid/config/json.h"
#include "braid/config/pretrain_table.h"

namespace braid::config {
namespace {

std::string json_of(OptionKind kind, const std::string& text) {
  if (kind != OptionKind::kText) return text;  // numbers and switches are printed as JSON has them
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> json_values(
    std::span<const OptionSpec> specs, std::span<const std::vector<std::string>> values) {
  std::vector<std::pair<std::string, std::string>> result;
  for (size_t i = 0; i < specs.size(); ++i) {
    std::string json;
    for (const std::string& value : values[i]) {
      json += cat(json.empty() ? "" : ", ", json_of(specs[i].kind, value));
    }
    if (specs[i].is_list) {
      json = cat("[", json, "]");
    } else if (values[i].empty()) {
      json = "null";
    }
    result.emplace_back(specs[i].name, json);
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> json_values(const PretrainOptions& options) {
  const OptionTable<PretrainOptions> table = pretrain_table();
  return json_values(table.specs(), table.values(options));
}

}  // namespace braid::config
