#include "braid/data/text/text_source.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"
#include "braid/base/printable.h"
#include "braid/base/text.h"
#include "braid/data/text/text_source_utf8.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The extension of the uncompressed file in lower case: ".rst" for "a.RST.gz".
std::string content_extension(const fs::path& path) {
  const std::string outer = lower_case(path.extension().string());
  const bool is_packed = outer == ".gz" || outer == ".zst";
  return is_packed ? lower_case(path.stem().extension().string()) : outer;
}

// Whether the name says that the file has a JSON object a line.
bool is_lines_name(const fs::path& path) {
  const std::string extension = content_extension(path);
  return extension == ".jsonl" || extension == ".ndjson";
}

// Files in directories of which one is an error, not to be skipped: they hold text, which would be missing.
bool must_be_converted(FileFormat format) {
  switch (format) {
    case FileFormat::kGitLfsPointer:
    case FileFormat::kParquet:
    case FileFormat::kArrow:
    case FileFormat::kUtf16:
    case FileFormat::kXz:
    case FileFormat::kBzip2:
    case FileFormat::kLz4:
      return true;
    default:
      return false;
  }
}

bool is_object(std::string_view text) { return trim(text).starts_with('{') && nlohmann::json::accept(text); }

void add_name(std::vector<std::string>& names, std::string name) {
  constexpr size_t kMostNames = 3;
  if (names.size() < kMostNames) names.push_back(std::move(name));
}

std::string keys_text(const nlohmann::json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (text.size() > 200) return text + ", ...";
    text += (text.empty() ? "" : ", ") + key;
  }
  return text.empty() ? "none" : text;
}

// The object's own text may be long: messages say where it is.
nlohmann::json parse_object(const std::string& text, const std::string& origin) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    constexpr size_t kMostBytes = 20;
    const size_t at = error.byte == 0 ? 0 : error.byte - 1;
    const std::string rest = text.substr(std::min(at, text.size()), kMostBytes);
    throw DataError(cat(origin, ": not JSON, at byte ", error.byte, " of what begins there: ",
                        rest.empty() ? "it ends too early" : "unexpected " + printable(rest)));
  }
}

std::string text_of_object(const nlohmann::json& object, const std::string& key, const std::string& origin) {
  require<DataError>(object.is_object(), origin, ": a document must be a JSON object like {\"", key,
                     "\": \"...\"}, got type ", object.type_name());
  const auto found = object.find(key);
  require<DataError>(
      found != object.end(), origin, ": has no key \"", key, "\" (its keys: ", keys_text(object),
      "); pass --json_key with the key of the text, or --format text if the file is one document");
  require<DataError>(found->is_string(), origin, ": the value of \"", key, "\" must be a string, got type ",
                     found->type_name());
  return found->get<std::string>();
}

}  // namespace

TextSource::TextSource(TextOptions options) : options_(std::move(options)) {
  require<ConfigError>(!options_.inputs.empty(),
                       "no input: pass text files, JSON files or directories to --input");
  for (std::string& extension : options_.extensions) {
    if (!extension.starts_with('.')) extension.insert(0, 1, '.');
    extension = lower_case(extension);
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

// Counts or rejects the open file if it begins like something else than text.
bool TextSource::is_text(std::string_view head) {
  const std::string name = file_->path.string();
  const FileFormat format = recognise_format(head, file_->bytes);
  if (format == FileFormat::kEmpty) return true;
  const std::string foreign = foreign_file_text(head, file_->bytes, FileFormat::kText);
  if (foreign.empty()) return true;
  const bool is_error = file_->named || must_be_converted(format);
  require<DataError>(!is_error || format != FileFormat::kBinary, name, " is not text: it has a NUL at byte ",
                     head.find('\0'));
  require<DataError>(!is_error, name, " ", foreign);
  ++counts_.binary;
  add_name(counts_.binary_names, cat(name, " is ", name_of(format)));
  return false;
}

TextFormat TextSource::format_of_open_file() {
  if (options_.format != TextFormat::kAuto) return options_.format;
  if (is_lines_name(file_->path)) return TextFormat::kJsonLines;
  std::string_view ahead = reader_->peek(1);
  while (ahead.find('\n') == std::string_view::npos) {
    const size_t had = ahead.size();
    ahead = reader_->peek(had + 1);
    if (ahead.size() == had || !trim(ahead).starts_with('{')) break;
  }
  const std::string_view first_line = ahead.substr(0, ahead.find('\n'));
  if (is_object(first_line)) return TextFormat::kJsonLines;
  return content_extension(file_->path) == ".json" ? TextFormat::kJson : TextFormat::kText;
}

bool TextSource::open_next() {
  while (next_file_ < files_.size()) {
    file_ = &files_[next_file_++];
    reader_.emplace(open_stream(file_->path));
    line_ = objects_ = 0;
    if (is_text(reader_->peek(kFormatHeadBytes).substr(0, kFormatHeadBytes))) {
      if (reader_->peek(kByteOrderMark.size()).starts_with(kByteOrderMark)) {
        reader_->consume(kByteOrderMark.size());
      }
      format_ = format_of_open_file();
      if (format_ == TextFormat::kJson) values_.emplace(*reader_, file_->path.string());
      ++counts_.files;
      return true;
    }
    close();
  }
  return false;
}

void TextSource::close() {
  closed_bytes_ += file_->bytes;
  values_.reset();
  reader_.reset();
}

Document TextSource::finished(std::string text, std::string origin) {
  counts_.invalid_utf8 += replace_invalid_utf8(text);
  return {std::move(text), std::move(origin)};
}

std::optional<JsonValues::Value> TextSource::next_value() {
  if (format_ == TextFormat::kJson) return values_->next();
  while (auto line = reader_->line()) {
    ++line_;
    if (!trim(*line).empty()) return JsonValues::Value{.text = std::move(*line), .line = line_};
  }
  return std::nullopt;
}

std::optional<Document> TextSource::next_object() {
  const auto value = next_value();
  if (!value) return std::nullopt;
  std::string origin = cat(file_->path.string(), ":", value->line);
  const nlohmann::json object = parse_object(value->text, origin);
  const bool has_text = object.is_object() && object.contains(options_.json_key);
  // In a directory of text, other JSON than documents is no surprise: configuration, say.
  const bool may_be_other =
      !file_->named && options_.format == TextFormat::kAuto && !is_lines_name(file_->path);
  if (!has_text && objects_ == 0 && may_be_other) {
    ++counts_.without_key;
    --counts_.files;
    add_name(counts_.without_key_names, file_->path.string());
    return std::nullopt;
  }
  ++objects_;
  std::string text = text_of_object(object, options_.json_key, origin);
  return finished(std::move(text), std::move(origin));
}

std::optional<Document> TextSource::next() {
  while (reader_ || open_next()) {
    if (format_ != TextFormat::kText) {
      if (auto document = next_object()) return document;
      close();
      continue;
    }
    std::string text = reader_->rest();
    const size_t nul = text.find('\0');
    require<DataError>(nul == std::string::npos || !file_->named, file_->path.string(),
                       " is not text: it has a NUL at byte ", nul);
    if (nul != std::string::npos) {
      ++counts_.binary;
      --counts_.files;
      add_name(counts_.binary_names, cat(file_->path.string(), " is a binary file"));
      close();
      continue;
    }
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
  const auto with_names = [](int64_t count, const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? " (" : "; ") + name;
    if (!text.empty() && count > static_cast<int64_t>(names.size())) text += "; ...";
    return text.empty() ? text : text + ")";
  };
  if (counts.binary > 0)
    parts.push_back(cat(counts.binary, " not text", with_names(counts.binary, counts.binary_names)));
  if (counts.without_key > 0) {
    parts.push_back(cat(counts.without_key, " JSON without text under --json_key",
                        with_names(counts.without_key, counts.without_key_names)));
  }
  if (counts.special > 0) parts.push_back(cat(counts.special, " special (links to directories, devices)"));
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "skipped: " : ", ") + parts[i];
  return text;
}

}  // namespace braid::data
