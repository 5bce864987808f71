#include "braid/data/text/text_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/data/text/text_source_utf8.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;

// The extension of the uncompressed file: ".rst" for "a.rst.gz".
std::string content_extension(const fs::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).extension().string();
}

std::string keys_text(const nlohmann::json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (text.size() > 200) return text + ", ...";
    text += (text.empty() ? "" : ", ") + key;
  }
  return text.empty() ? "none" : text;
}

std::string text_of_line(const std::string& line, const std::string& key, const std::string& origin) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& error) {
    constexpr size_t kMostBytes = 200;  // the message repeats the text being parsed
    const std::string_view what = error.what();
    const size_t colon = what.find(": ");
    throw DataError(
        cat(origin, ": not a line of JSON, at byte ", error.byte, " of the line: ",
            utf8_prefix(what.substr(colon == std::string_view::npos ? 0 : colon + 2), kMostBytes)));
  }
  require<DataError>(object.is_object(), origin, ": a line must be a JSON object like {\"", key,
                     "\": \"...\"}, got type ", object.type_name());
  const auto found = object.find(key);
  require<DataError>(found != object.end(), origin, ": has no key \"", key,
                     "\" (its keys: ", keys_text(object), "); pass --json_key with the key of the text");
  require<DataError>(found->is_string(), origin, ": the value of \"", key, "\" must be a string, got type ",
                     found->type_name());
  return found->get<std::string>();
}

}  // namespace

TextSource::TextSource(TextOptions options) : options_(std::move(options)) {
  require<ConfigError>(!options_.inputs.empty(),
                       "no input: pass text files, .jsonl files or directories to --input");
  for (std::string& extension : options_.extensions) {
    if (!extension.starts_with('.')) extension.insert(0, 1, '.');
  }
  for (const std::string& input : options_.inputs) {
    std::error_code error;
    const auto status = fs::status(input, error);
    require<ConfigError>(status.type() != fs::file_type::not_found, "input ", input,
                         ": no such file or directory");
    require<ConfigError>(status.type() != fs::file_type::none, "input ", input, ": ", error.message());
    if (status.type() == fs::file_type::directory) {
      add_directory(input);
      continue;
    }
    require<ConfigError>(status.type() == fs::file_type::regular, "input ", input,
                         " is neither a file nor a directory");
    files_.push_back({.path = input, .bytes = static_cast<int64_t>(fs::file_size(input)), .named = true});
  }
  const std::string skipped = skipped_text(counts_);
  require<ConfigError>(!files_.empty(), "no text file in ", options_.inputs.front(),
                       options_.inputs.size() > 1 ? " and the other inputs" : "",
                       skipped.empty() ? "" : ": " + skipped);
  for (const File& file : files_) total_bytes_ += file.bytes;
}

void TextSource::add_directory(const fs::path& directory) {
  const size_t first = files_.size();
  try {
    for (auto entry = fs::recursive_directory_iterator(directory);
         entry != fs::recursive_directory_iterator(); ++entry) {
      if (entry->path().filename().native().starts_with('.')) {
        ++counts_.hidden;
        entry.disable_recursion_pending();
        continue;
      }
      if (std::ranges::find(options_.excluded, entry->path().filename().string()) !=
          options_.excluded.end()) {
        ++counts_.excluded;
        entry.disable_recursion_pending();
        continue;
      }
      if (entry->is_directory()) {
        if (entry->is_symlink()) ++counts_.special;
        continue;
      }
      std::error_code dangling;
      if (!entry->is_regular_file(dangling)) {
        ++counts_.special;
        continue;
      }
      if (!options_.extensions.empty() &&
          std::ranges::find(options_.extensions, content_extension(entry->path())) ==
              options_.extensions.end()) {
        ++counts_.other_extension;
        continue;
      }
      files_.push_back({.path = entry->path(), .bytes = static_cast<int64_t>(entry->file_size())});
    }
  } catch (const fs::filesystem_error& error) {
    throw DataError(cat("input ", directory.string(), " cannot be listed: ", error.path1().string(), ": ",
                        error.code().message()));
  }
  std::sort(files_.begin() + static_cast<std::ptrdiff_t>(first), files_.end(),
            [](const File& a, const File& b) { return a.path.native() < b.path.native(); });
}

int64_t TextSource::done_bytes() const {
  return closed_bytes_ + (reader_ ? std::min(reader_->position_bytes(), file_->bytes) : 0);
}

bool TextSource::open_next() {
  constexpr size_t kBinaryCheckBytes = 8192;
  while (next_file_ < files_.size()) {
    file_ = &files_[next_file_++];
    reader_.emplace(open_stream(file_->path));
    line_ = 0;
    const size_t nul = reader_->peek(kBinaryCheckBytes).substr(0, kBinaryCheckBytes).find('\0');
    if (nul == std::string_view::npos) {
      ++counts_.files;
      return true;
    }
    require<DataError>(!file_->named, file_->path.string(), " is not text: it has a NUL at byte ", nul);
    ++counts_.binary;
    close();
  }
  return false;
}

void TextSource::close() {
  closed_bytes_ += file_->bytes;
  reader_.reset();
}

Document TextSource::finished(std::string text, std::string origin) {
  counts_.invalid_utf8 += replace_invalid_utf8(text);
  return {std::move(text), std::move(origin)};
}

std::optional<Document> TextSource::next_line() {
  while (auto line = reader_->line()) {
    ++line_;
    if (trim(*line).empty()) continue;
    std::string origin = cat(file_->path.string(), ":", line_);
    std::string text = text_of_line(*line, options_.json_key, origin);
    return finished(std::move(text), std::move(origin));
  }
  return std::nullopt;
}

std::optional<Document> TextSource::next() {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  while (reader_ || open_next()) {
    if (content_extension(file_->path) == ".jsonl") {
      if (auto document = next_line()) return document;
      close();
      continue;
    }
    std::string text = reader_->rest();
    if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    Document document = finished(std::move(text), file_->path.string());
    close();
    return document;
  }
  return std::nullopt;
}

std::string skipped_text(const TextCounts& counts) {
  std::vector<std::string> parts;
  if (counts.hidden > 0) parts.push_back(cat(counts.hidden, " hidden"));
  if (counts.excluded > 0) parts.push_back(cat(counts.excluded, " excluded by name"));
  if (counts.other_extension > 0) parts.push_back(cat(counts.other_extension, " with another extension"));
  if (counts.binary > 0) parts.push_back(cat(counts.binary, " binary"));
  if (counts.special > 0) parts.push_back(cat(counts.special, " special (links to directories, devices)"));
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "skipped: " : ", ") + parts[i];
  return text;
}

}  // namespace braid::data
