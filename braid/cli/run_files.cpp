#include "braid/cli/run_files.h"

#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/fingerprint.h"
#include "braid/config/pretrain.h"
#include "braid/data/index/input.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

// The regular files of a directory whose names `wanted` accepts. None if it cannot be listed.
template <typename Wanted>
void add_files(std::set<std::string>& files, const fs::path& directory, Wanted wanted) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && wanted(entry->path().filename().string()))
      files.insert(entry->path().string());
  }
}

void add_token_files(std::set<std::string>& files, const std::string& input) {
  std::vector<data::WeightedPrefix> prefixes;
  try {
    prefixes = data::parse_input(input);
  } catch (const ConfigError&) {
    files.insert(input);  // other machines may have it
    return;
  }
  for (const data::WeightedPrefix& one : prefixes) {
    const fs::path prefix(one.prefix);
    const std::string start = prefix.filename().string() + ".";
    const size_t before = files.size();
    add_files(files, prefix.has_parent_path() ? prefix.parent_path() : fs::path("."),
              [&](std::string_view name) { return name.starts_with(start) && !name.ends_with(".lock"); });
    if (files.size() == before) files.insert(one.prefix);
  }
}

bool is_model_file(std::string_view name) {
  constexpr std::array<std::string_view, 3> kEndings = {".json", ".safetensors", ".model"};
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// A file, or the files of a model's or tokenizer's directory. Other words ("byte", "braid/llama-tiny") name
// none.
void add_named(std::set<std::string>& files, std::string name) {
  constexpr std::string_view kSentencePiece = "sentencepiece:";
  if (name.starts_with(kSentencePiece)) name.erase(0, kSentencePiece.size());
  std::error_code error;
  if (fs::is_directory(name, error)) {
    add_files(files, name, is_model_file);
  } else if (fs::exists(name, error) || name.starts_with('/') || name.starts_with("./")) {
    files.insert(name);
  }
}

}  // namespace

std::vector<std::string> files_of(const config::PretrainOptions& options) {
  std::set<std::string> files;
  if (!options.input_dir.empty() && !options.synthetic_data) add_token_files(files, options.input_dir);
  add_named(files, options.model_name_or_path);
  if (options.tokenizer_name_or_path) add_named(files, *options.tokenizer_name_or_path);
  if (options.strategy) add_named(files, *options.strategy);
  if (const auto schedule = config::schedule_file(options)) files.insert(*schedule);
  constexpr std::string_view kFile = "file:";
  if (options.schedule_times && options.schedule_times->starts_with(kFile))
    files.insert(options.schedule_times->substr(kFile.size()));
  return {files.begin(), files.end()};
}

std::vector<comm::FileContent> contents_of(const std::vector<std::string>& paths) {
  std::vector<comm::FileContent> contents;
  for (const std::string& path : paths) {
    std::string content;
    try {
      content = file_fingerprint(path);
      content += cat(" (", fs::file_size(path), " bytes)");
    } catch (const DataError& error) {
      content = cat("unreadable (", error.what(), ")");
    } catch (const fs::filesystem_error& error) {
      content = cat("unreadable (", error.code().message(), ")");
    }
    contents.push_back({.path = path, .content = std::move(content)});
  }
  return contents;
}

}  // namespace braid::cli
