#include "braid/config/generation_config.h"

#include <filesystem>
#include <system_error>

#include "braid/config/json.h"
#include "braid/config/text_file.h"

namespace braid::config {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The ids under a key: one, a list of them, or none (null, or -1 in old files).
std::vector<int64_t> ids_of(const json& object, const char* key, std::string_view file_name,
                            const ModelConfig& model) {
  std::vector<int64_t> ids;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return ids;
  for (const json& item : found->is_array() ? *found : json::array({*found})) {
    const auto id = json_int(item);
    require<ConfigError>(id.has_value(), file_name, ": ", key,
                         " must be a whole number or a list of them, got ", json_text(*found));
    if (*id == -1) continue;
    require<ConfigError>(0 <= *id && *id < model.vocab_size, file_name, ": ", key, " ", *id,
                         " is outside the model's vocabulary of ", model.vocab_size, ", whose ids are 0 to ",
                         model.vocab_size - 1, "; correct it, or use the file of this model");
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace

GenerationConfig generation_config_from_json(std::string_view text, std::string_view file_name,
                                             const ModelConfig& model) {
  const json object = parse_json(text, file_name);
  require<ConfigError>(object.is_object(), file_name, " must be an object, got ", json_text(object));
  const auto one = [&](const char* key) -> std::optional<int64_t> {
    const std::vector<int64_t> ids = ids_of(object, key, file_name, model);
    if (ids.size() > 1)
      throw ConfigError(cat(file_name, ": ", key, " must be one id, got ", json_text(object.at(key))));
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  return {.bos_token_id = one("bos_token_id"),
          .eos_token_id = ids_of(object, "eos_token_id", file_name, model),
          .pad_token_id = one("pad_token_id")};
}

std::string generation_config_to_json(const ModelConfig& model) {
  ordered_json object = {{"_from_model_config", true}};
  if (model.bos_token_id) object["bos_token_id"] = *model.bos_token_id;
  if (model.eos_token_id.size() == 1) object["eos_token_id"] = model.eos_token_id.front();
  if (model.eos_token_id.size() > 1) object["eos_token_id"] = model.eos_token_id;
  if (model.pad_token_id) object["pad_token_id"] = *model.pad_token_id;
  return object.dump(2) + "\n";
}

std::optional<GenerationConfig> load_generation_config(const std::string& directory,
                                                       const ModelConfig& model) {
  const std::filesystem::path file = std::filesystem::path(directory) / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return generation_config_from_json(read_text_file(file.string()), file.string(), model);
}

}  // namespace braid::config
