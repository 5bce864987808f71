#include "braid/config/presets.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"
#include "braid/base/text.h"
#include "braid/config/model_config_json.h"
#include "braid/config/text_file.h"

namespace braid::config {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

std::vector<Preset> presets() {
  const ModelConfig llama3{.vocab_size = 128256,
                           .intermediate_size = 14336,
                           .num_key_value_heads = 8,
                           .max_position_embeddings = 8192,
                           .rms_norm_eps = 1e-5,
                           .rope_theta = 500000.0,
                           .bos_token_id = 128000,
                           .eos_token_id = {128001}};
  ModelConfig llama3_70b = llama3;
  llama3_70b.hidden_size = 8192;
  llama3_70b.intermediate_size = 28672;
  llama3_70b.num_hidden_layers = 80;
  llama3_70b.num_attention_heads = 64;
  ModelConfig llama32_1b = llama3;
  llama32_1b.hidden_size = 2048;
  llama32_1b.intermediate_size = 8192;
  llama32_1b.num_hidden_layers = 16;
  llama32_1b.head_dim = 64;
  llama32_1b.max_position_embeddings = 131072;
  llama32_1b.rope_scaling = {.type = RopeType::kLlama3, .factor = 32};
  llama32_1b.tie_word_embeddings = true;
  const ModelConfig llama_13b{
      .hidden_size = 5120, .intermediate_size = 13824, .num_hidden_layers = 40, .num_attention_heads = 40};
  ModelConfig llama2_13b = llama_13b;
  llama2_13b.max_position_embeddings = 4096;
  llama2_13b.rms_norm_eps = 1e-5;
  // llama-10m has seven layers because four of them cost as much as three and the head, which balances two
  // stages. All sizes of the small presets are multiples of 64, which suits the matrix units of CPUs and
  // GPUs.
  return {
      {.name = "braid/llama-tiny",
       .other_names = {"llama-tiny"},
       .note = "for tests",
       .config = {.vocab_size = 1024,
                  .hidden_size = 128,
                  .intermediate_size = 384,
                  .num_hidden_layers = 4,
                  .num_attention_heads = 4,
                  .num_key_value_heads = 2,
                  .max_position_embeddings = 256,
                  .rms_norm_eps = 1e-5}},
      {.name = "braid/llama-10m",
       .other_names = {"llama-10m"},
       .note = "minutes on two CPU cores",
       .config = {.vocab_size = 4096,
                  .hidden_size = 320,
                  .intermediate_size = 768,
                  .num_hidden_layers = 7,
                  .num_attention_heads = 5,
                  .max_position_embeddings = 1024,
                  .rms_norm_eps = 1e-5}},
      {.name = "braid/llama-50m",
       .other_names = {"llama-50m"},
       .note = "hours on a CPU",
       .config = {.vocab_size = 8192,
                  .hidden_size = 512,
                  .intermediate_size = 1408,
                  .num_hidden_layers = 14,
                  .num_attention_heads = 8,
                  .num_key_value_heads = 4,
                  .rms_norm_eps = 1e-5}},
      {.name = "braid/llama-100m",
       .other_names = {"llama-100m"},
       .note = "one GPU",
       .config = {.vocab_size = 16384,
                  .hidden_size = 768,
                  .intermediate_size = 2048,
                  .num_hidden_layers = 12,
                  .num_attention_heads = 12,
                  .num_key_value_heads = 4,
                  .rms_norm_eps = 1e-5}},
      {.name = "TinyLlama/TinyLlama_v1.1",
       .other_names = {"tinyllama", "llama-1b", "braid/llama-1b"},
       .note = "1.1 billion parameters",
       .config = {.hidden_size = 2048,
                  .intermediate_size = 5632,
                  .num_hidden_layers = 22,
                  .num_attention_heads = 32,
                  .num_key_value_heads = 4,
                  .rms_norm_eps = 1e-5}},
      {.name = "meta-llama/Llama-3.2-1B",
       .other_names = {"llama-3.2-1b"},
       .note = "tied",
       .config = llama32_1b},
      {.name = "facebook/llama-7b",
       .other_names = {"llama-7b", "huggyllama/llama-7b"},
       .note = "",
       .config = {}},
      {.name = "facebook/llama-13b",
       .other_names = {"llama-13b", "huggyllama/llama-13b"},
       .note = "",
       .config = llama_13b},
      {.name = "meta-llama/Llama-2-7b",
       .other_names = {"llama-2-7b", "meta-llama/Llama-2-7b-hf"},
       .note = "",
       .config = {.max_position_embeddings = 4096, .rms_norm_eps = 1e-5}},
      {.name = "meta-llama/Llama-2-13b",
       .other_names = {"llama-2-13b", "meta-llama/Llama-2-13b-hf"},
       .note = "",
       .config = llama2_13b},
      {.name = "meta-llama/Meta-Llama-3-8B",
       .other_names = {"llama-3-8b", "meta-llama/Llama-3-8B"},
       .note = "",
       .config = llama3},
      {.name = "meta-llama/Meta-Llama-3-70B",
       .other_names = {"llama-3-70b", "meta-llama/Llama-3-70B"},
       .note = "",
       .config = llama3_70b},
  };
}

std::optional<ModelConfig> find_preset(std::string_view name) {
  const std::string wanted = lower_case(name);
  for (const Preset& preset : presets()) {
    if (lower_case(preset.name) == wanted) return preset.config;
    for (const std::string& other : preset.other_names) {
      if (lower_case(other) == wanted) return preset.config;
    }
  }
  return std::nullopt;
}

ModelConfig load_model_config(const std::string& name_or_path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path(name_or_path);
  if (!name_or_path.empty() && fs::is_regular_file(path, error)) {
    reject_foreign_file(path, FileFormat::kJson);
    return model_config_from_json(read_text_file(name_or_path), name_or_path);
  }
  const bool is_directory = !name_or_path.empty() && fs::is_directory(path, error);
  if (is_directory && fs::exists(path / "config.json", error)) {
    const std::string file = (path / "config.json").string();
    reject_foreign_file(file, FileFormat::kJson);
    return model_config_from_json(read_text_file(file), file);
  }
  if (auto preset = find_preset(name_or_path)) return *preset;
  require<ConfigError>(
      !is_directory, "the directory '", name_or_path,
      "' has no config.json; a model is a directory with Hugging Face's config.json, or a preset");

  std::vector<std::string> names;
  std::string listed;
  for (const Preset& preset : presets()) {
    names.push_back(preset.name);
    names.insert(names.end(), preset.other_names.begin(), preset.other_names.end());
    listed += (listed.empty() ? "" : ", ") + preset.name;
  }
  const auto close = nearest(name_or_path, names);
  throw ConfigError(cat("no model '", name_or_path,
                        "': ", close ? cat("did you mean the preset ", *close, "? ") : "",
                        "Expected a directory with config.json, or one of the presets ", listed));
}

}  // namespace braid::config
