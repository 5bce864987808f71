// The values of a JSON file that are not one a line: of an array, or one after the other over several lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "braid/data/text/text_source_stream.h"

namespace braid::data {

/// Reads the entries of a top-level array, or objects one after the other, without holding more than one in
/// memory.
class JsonValues {
 public:
  /// `reader` must outlive it. `name` is the file's, for errors.
  JsonValues(StreamReader& reader, std::string name) : reader_(reader), name_(std::move(name)) {}

  struct Value {
    std::string text;
    int64_t line = 0;  // where it begins, counted from 1
  };

  /// The text of the next object, whose end is found by its brackets and quotes alone: it may not be JSON.
  /// Nothing after the last. Throws DataError, with file and line, for anything else than objects, commas
  /// between the entries of an array, and its end.
  std::optional<Value> next();

 private:
  /// The next character that is not white space, or nothing at the end of the file.
  std::optional<char> skip_space();
  void consume(size_t bytes);
  [[noreturn]] void fail(std::string_view what) const;

  StreamReader& reader_;
  std::string name_;
  int64_t line_ = 1;
  enum class Place : uint8_t { kBegin, kObjects, kEntry, kAfterEntry, kAfterArray } place_ = Place::kBegin;
};

}  // namespace braid::data
