#include "braid/data/index/input.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/data/index/indexed_file.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrepare =
    "; create token files with: braid data prepare --input TEXT --output_prefix P --tokenizer T";

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Names of the entries of `folder` that end in `suffix`, without the suffix, sorted.
std::vector<std::string> names_ending_in(const std::string& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    names.push_back(std::move(name));
  }
  require<ConfigError>(!error, "input_dir ", folder, " cannot be listed: ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<WeightedPrefix> files_of_directory(const std::string& folder) {
  std::vector<WeightedPrefix> files;
  for (const std::string& name : names_ending_in(folder, ".idx")) {
    files.push_back({.weight = 1.0, .prefix = (fs::path(folder) / name).string()});
  }
  if (!files.empty()) return files;
  if (const auto names = names_ending_in(folder, "_idx.npz"); !names.empty()) {
    throw ConfigError(cat(
        "input_dir ", folder, " has no .idx; ", names.front(),
        "_idx.npz is PaddleNLP's old format, which braid does not read: prepare the text again", kPrepare));
  }
  if (const auto names = names_ending_in(folder, ".bin"); !names.empty()) {
    throw ConfigError(cat("input_dir ", folder, " has ", names.front(), ".bin but no ", names.front(),
                          ".idx next to it; copy the .idx too, or prepare it again"));
  }
  if (!names_ending_in(folder, ".idx.partial").empty()) {
    throw ConfigError(
        cat("input_dir ", folder,
            " has only incomplete .partial files: their preparation did not finish; run it again"));
  }
  for (const std::string_view suffix : {".txt", ".jsonl", ".json", ".md", ".rst"}) {
    if (const auto names = names_ending_in(folder, suffix); !names.empty()) {
      throw ConfigError(cat("input_dir ", folder, " has text files (", names.front(), suffix,
                            "), not token files", kPrepare));
    }
  }
  throw ConfigError(cat("input_dir ", folder, " has no .idx file", kPrepare));
}

bool is_prefix(const std::string& path) {
  const std::string prefix = index_prefix(path);
  return is_file(prefix + ".idx") || is_file(prefix + ".bin");
}

// Throws an error with a suggestion for `path`, which does not exist.
[[noreturn]] void throw_missing(const std::string& path) {
  const std::string prefix = index_prefix(path);
  const fs::path parent = fs::path(prefix).has_parent_path() ? fs::path(prefix).parent_path() : fs::path(".");
  require<ConfigError>(!is_file(path), "input_dir: ", path,
                       " is neither a directory nor a token file (.bin and .idx)", kPrepare);
  require<ConfigError>(
      !is_file(prefix + "_idx.npz"), "input_dir: ", prefix,
      "_idx.npz is PaddleNLP's old format, which braid does not read: prepare the text again", kPrepare);
  require<ConfigError>(is_directory(parent.string()), "input_dir: ", path,
                       " does not exist, nor does the directory ", parent.string(), kPrepare);
  std::vector<std::string> names = names_ending_in(parent.string(), ".idx");
  std::string hint;
  if (const auto close = nearest(fs::path(prefix).filename().string(), names)) {
    hint = cat("; did you mean ", (parent / *close).string(), "?");
  } else if (is_file(prefix + "_text_document.idx")) {
    hint = cat("; did you mean ", prefix, "_text_document?");
  } else if (!names.empty()) {
    hint = cat("; that directory has ", names.front(), ".idx",
               names.size() > 1 ? cat(" and ", names.size() - 1, " more") : "");
  } else {
    hint = std::string(kPrepare);
  }
  throw ConfigError(cat("input_dir: neither ", prefix, ".idx nor a directory ", path, " exists", hint));
}

// The same file twice would be split twice: what validates one of them trains with the other's order.
void reject_repeated(const std::vector<WeightedPrefix>& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      std::error_code ignored;
      require<ConfigError>(!fs::equivalent(files[i].prefix + ".idx", files[j].prefix + ".idx", ignored),
                           "input_dir: ", files[j].prefix, " and ", files[i].prefix,
                           " are the same file: give it once, with the sum of the weights");
    }
  }
}

std::vector<WeightedPrefix> parse_list(const std::vector<std::string>& words) {
  constexpr std::string_view kForm = "several files must be given as \"weight prefix weight prefix ...\"";
  require<ConfigError>(words.size() % 2 == 0, "input_dir has ", words.size(), " words: ", kForm);
  std::vector<WeightedPrefix> files;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& path = words[i + 1];
    const std::optional<double> weight = parse_double(words[i]);
    require<ConfigError>(weight.has_value(), "input_dir has \"", words[i], "\" instead of a weight: ", kForm);
    require<ConfigError>(std::isfinite(*weight) && *weight > 0, "input_dir: the weight of ", path,
                         " must be above 0, got ", words[i]);
    if (!is_prefix(path)) {
      require<ConfigError>(
          !is_directory(path), "input_dir: ", path,
          " is a directory, but a weight applies to one pair of files: pass its prefix, such as ",
          is_directory(path) ? files_of_directory(path).front().prefix : path);
      throw_missing(path);
    }
    files.push_back({.weight = *weight, .prefix = index_prefix(path)});
  }
  reject_repeated(files);
  return files;
}

}  // namespace

std::vector<WeightedPrefix> parse_input(std::string_view input) {
  const std::string whole(trim(input));
  require<ConfigError>(
      !whole.empty(),
      "input_dir is empty; it must be a directory, a prefix, or \"weight prefix weight prefix ...\"");
  // As one path first: it may contain spaces.
  if (is_prefix(whole)) return {{.weight = 1.0, .prefix = index_prefix(whole)}};
  if (is_directory(whole)) return files_of_directory(whole);
  std::istringstream stream(whole);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() == 1) throw_missing(whole);
  return parse_list(words);
}

}  // namespace braid::data
