#include "braid/config/file_value.h"

#include <cstddef>
#include <filesystem>
#include <iterator>

#include "braid/base/error.h"
#include "braid/config/json.h"
#include "braid/config/text_file.h"

namespace braid::config {
namespace {

using nlohmann::json;

// Characters of a text; counts the lines of those that have been passed, because the JSON library keeps no
// positions.
class LineCountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCountingIterator(const char* at, size_t* lines) : at_(at), lines_(lines) {}
  reference operator*() const { return *at_; }
  LineCountingIterator& operator++() {
    if (*at_ == '\n') ++*lines_;
    ++at_;
    return *this;
  }
  LineCountingIterator operator++(int) {
    const LineCountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const LineCountingIterator& a, const LineCountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  size_t* lines_;
};

// Builds the tree from the library's events. At the event of a string or a key the library has read up to its
// closing quote, so the number of lines read is the key's.
class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(std::string_view text, std::string_view file_name, const size_t& line)
      : text_(text), file_name_(file_name), line_(line) {}

  FileValue take() { return std::move(root_); }

  bool null() override { return add(FileValue::Kind::kNothing, ""); }
  bool boolean(bool value) override { return add(FileValue::Kind::kScalar, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return add(FileValue::Kind::kScalar, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add(FileValue::Kind::kScalar, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return add(FileValue::Kind::kScalar, text);
  }
  bool string(string_t& text) override { return add(FileValue::Kind::kScalar, text); }
  bool binary(binary_t&) override { throw InternalError("JSON text has no binary values"); }
  bool start_object(size_t) override { return open(FileValue::Kind::kMap); }
  bool start_array(size_t) override { return open(FileValue::Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    key_ = text;
    key_line_ = line_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    throw ConfigError(cat(file_name_, " is not valid JSON: ", json_error_text(text_, error)));
  }

 private:
  bool add(FileValue::Kind kind, std::string text) {
    require_within_limits(file_name_, open_.size(), ++count_);
    const bool is_entry = !open_.empty() && open_.back()->kind == FileValue::Kind::kMap;
    FileValue value = {.kind = kind,
                       .where = cat(file_name_, ":", is_entry ? key_line_ : line_),
                       .key = is_entry ? key_ : "",
                       .text = std::move(text),
                       .items = {}};
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back()->items.push_back(std::move(value));
    }
    return true;
  }

  bool open(FileValue::Kind kind) {
    add(kind, "");
    open_.push_back(open_.empty() ? &root_ : &open_.back()->items.back());
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string_view file_name_;
  const size_t& line_;
  FileValue root_;
  std::vector<FileValue*> open_;  // only the last one grows, so the others stay where they are
  std::string key_;
  size_t key_line_ = 1;
  size_t count_ = 0;
};

}  // namespace

FileValue read_file_value(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".json") return parse_json_value(read_text_file(path), path);
  require<ConfigError>(extension == ".yaml" || extension == ".yml", "'", path,
                       "' is not an option file: its name must end in .yaml, .yml or .json "
                       "(flags begin with two dashes)");
  return parse_yaml_value(read_text_file(path), path);
}

FileValue parse_json_value(std::string_view text, std::string_view file_name) {
  size_t line = 1;
  TreeBuilder tree(text, file_name, line);
  json::sax_parse(LineCountingIterator(text.data(), &line),
                  LineCountingIterator(text.data() + text.size(), &line), &tree);
  return tree.take();
}

std::string_view kind_text(const FileValue& value) {
  switch (value.kind) {
    case FileValue::Kind::kNothing:
      return "nothing";
    case FileValue::Kind::kScalar:
      return "a single value";
    case FileValue::Kind::kList:
      return "a list";
    case FileValue::Kind::kMap:
      return "a map";
  }
  throw InternalError("a file has no such kind of value");
}

std::vector<std::string> value_texts(const FileValue& value, std::string_view label) {
  require<ConfigError>(value.kind != FileValue::Kind::kNothing, label,
                       " has no value; omit it to keep the default");
  require<ConfigError>(value.kind != FileValue::Kind::kMap, label,
                       " must be a single value or a list of them, got a map");
  if (value.kind == FileValue::Kind::kScalar) return {value.text};
  std::vector<std::string> texts;
  for (const FileValue& item : value.items) {
    require<ConfigError>(item.kind == FileValue::Kind::kScalar, label,
                         " must be a single value or a list of them, got a list with ", kind_text(item),
                         " in it");
    texts.push_back(item.text);
  }
  return texts;
}

void require_within_limits(std::string_view file_name, size_t depth, size_t count) {
  constexpr size_t kDeepest = 32;
  constexpr size_t kMost = 10000;
  require<ConfigError>(depth <= kDeepest, file_name, " is nested deeper than ", kDeepest,
                       " levels: is it the right file?");
  require<ConfigError>(count <= kMost, file_name, " holds more than ", kMost,
                       " values: is it the right file?");
}

}  // namespace braid::config
