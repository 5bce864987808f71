#include "braid/cli/export_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"
#include "braid/base/printable.h"
#include "braid/checkpoint/file.h"
#include "braid/config/generation_config.h"
#include "braid/data/tokenizer/hf_tokenizer.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = 256 << 20;
constexpr const char* kTokenizerModel = "tokenizer.model";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kGenerationConfig = "generation_config.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The files of a directory's tokenizer, as they are.
std::vector<checkpoint::SideFile> tokenizer_files_of(const fs::path& directory) {
  std::vector<checkpoint::SideFile> files;
  for (const std::string_view name : checkpoint::side_file_names()) {
    if (name == kGenerationConfig || !is_file(directory / name)) continue;
    if (name.ends_with(".json")) reject_foreign_file(directory / name, FileFormat::kJson);
    files.push_back({std::string(name), checkpoint::read_text(directory / name, kMostBytes)});
  }
  return files;
}

// The directory of a model, whose tokenizer came with all of its files; nothing for a file of its own.
std::optional<fs::path> directory_of(const fs::path& tokenizer_file) {
  const fs::path directory = tokenizer_file.parent_path();
  if (is_file(directory / kTokenizerConfig) || is_file(directory / "tokenizer.json")) return directory;
  return std::nullopt;
}

std::vector<checkpoint::SideFile> tokenizer_files(const config::PretrainOptions& options,
                                                  const data::Tokenizer* tokenizer,
                                                  const config::ModelConfig& model, bool adds_bos) {
  if (tokenizer == nullptr)
    return options.continue_training ? tokenizer_files_of(options.model_name_or_path)
                                     : std::vector<checkpoint::SideFile>{};
  const data::HfTokenizerOptions own = {.bos_id = tokenizer->bos_id(),
                                        .eos_id = tokenizer->eos_id(),
                                        .add_bos = adds_bos,
                                        .max_length = model.max_position_embeddings};
  std::vector<checkpoint::SideFile> files;
  const auto add = [&](std::vector<data::HfTokenizerFile> made) {
    for (data::HfTokenizerFile& file : made) files.push_back({std::move(file.name), std::move(file.text)});
  };
  const std::optional<fs::path> source = tokenizer->file();
  if (!source) {
    add(data::byte_tokenizer_files(own));
    return files;
  }
  if (const auto directory = directory_of(*source)) files = tokenizer_files_of(*directory);
  std::string bytes = checkpoint::read_text(*source, kMostBytes);
  if (files.empty()) add(data::sentencepiece_tokenizer_files(bytes, own));
  std::erase_if(files, [](const checkpoint::SideFile& file) { return file.name == kTokenizerModel; });
  files.push_back({kTokenizerModel, std::move(bytes)});
  return files;
}

checkpoint::SideFile generation_file(const config::PretrainOptions& options,
                                     const config::ModelConfig& model) {
  const fs::path given = fs::path(options.model_name_or_path) / kGenerationConfig;
  if (options.continue_training) {
    const auto config = config::load_generation_config(options.model_name_or_path, model);
    const auto ends = [&](int64_t id) { return std::ranges::count(config->eos_token_id, id) > 0; };
    const bool holds = config && (!config->bos_token_id || config->bos_token_id == model.bos_token_id) &&
                       (config->eos_token_id.empty() || std::ranges::all_of(model.eos_token_id, ends));
    if (holds) return {kGenerationConfig, checkpoint::read_text(given, kMostBytes)};
  }
  return {kGenerationConfig, config::generation_config_to_json(model)};
}

// Whether a tokenizer_config.json says that BOS is added; nothing if it does not say.
std::optional<bool> adds_bos_by(const std::string& text) {
  const nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) return std::nullopt;
  const auto found = config.find("add_bos_token");
  if (found == config.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

}  // namespace

std::vector<checkpoint::SideFile> export_files(const config::PretrainOptions& options,
                                               const data::Tokenizer* tokenizer,
                                               const config::ModelConfig& model, std::optional<bool> adds_bos,
                                               std::vector<std::string>& notes) {
  std::vector<checkpoint::SideFile> files =
      tokenizer_files(options, tokenizer, model, adds_bos.value_or(false));
  for (const checkpoint::SideFile& file : files) {
    if (file.name != kTokenizerConfig || !adds_bos) continue;
    const std::optional<bool> said = adds_bos_by(file.content);
    if (said && *said != *adds_bos) {
      notes.push_back(cat("the tokenizer's tokenizer_config.json has add_bos_token ",
                          *said ? "true" : "false", ", but the documents of --input_dir ",
                          *adds_bos ? "" : "do not ",
                          "begin with the BOS id: transformers will give other ids than training sees"));
    }
  }
  files.push_back(generation_file(options, model));
  return files;
}

bool adds_bos(const std::filesystem::path& directory) {
  const fs::path file = directory / kTokenizerConfig;
  if (!is_file(file)) return false;
  reject_foreign_file(file, FileFormat::kJson);
  const std::string text = checkpoint::read_text(file, kMostBytes);
  require<DataError>(nlohmann::json::accept(text), printable(file.string()),
                     " is not valid JSON; copy or download it again");
  return adds_bos_by(text).value_or(false);
}

}  // namespace braid::cli
