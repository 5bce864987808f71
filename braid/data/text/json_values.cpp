#include "braid/data/text/json_values.h"

#include <algorithm>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::data {

void JsonValues::fail(std::string_view what) const { throw DataError(cat(name_, ":", line_, ": ", what)); }

void JsonValues::consume(size_t bytes) {
  const std::string_view skipped = reader_.peek(bytes).substr(0, bytes);
  line_ += std::ranges::count(skipped, '\n');
  reader_.consume(bytes);
}

std::optional<char> JsonValues::skip_space() {
  while (true) {
    const std::string_view ahead = reader_.peek(1);
    if (ahead.empty()) return std::nullopt;
    const size_t end = std::min(ahead.find_first_not_of(" \t\r\n"), ahead.size());
    if (end == 0) return ahead.front();
    consume(end);
  }
}

std::optional<JsonValues::Value> JsonValues::next() {
  std::optional<char> c = skip_space();
  if (place_ == Place::kBegin) {
    place_ = c == '[' ? Place::kEntry : Place::kObjects;
    if (c == '[') {
      consume(1);
      c = skip_space();
      if (c == ']') place_ = Place::kAfterEntry;  // an empty array
    }
  }
  if (place_ == Place::kAfterEntry) {
    if (c == ',') {
      consume(1);
      c = skip_space();
      place_ = Place::kEntry;
    } else if (c == ']') {
      consume(1);
      c = skip_space();
      place_ = Place::kAfterArray;
    } else {
      fail(c ? "expected a comma or the end of the array" : "the file ends within an array; copy it again");
    }
  }
  if (place_ == Place::kAfterArray && c) fail("there is more after the end of the array");
  if (!c && place_ == Place::kEntry) fail("the file ends within an array; copy it again");
  if (!c) return std::nullopt;
  if (c != '{') fail("expected a JSON object like {\"text\": \"...\"}");

  size_t at = 0;
  int64_t depth = 0;
  bool in_string = false, escaped = false;
  std::string_view ahead = reader_.peek(1);
  do {
    if (at == ahead.size()) {
      ahead = reader_.peek(at + 1);
      if (at == ahead.size()) fail("the file ends within the object that begins here; copy it again");
    }
    const char here = ahead[at++];
    if (in_string) {
      if (!escaped && here == '"') in_string = false;
      escaped = !escaped && here == '\\';
    } else if (here == '"') {
      in_string = true;
    } else if (here == '{' || here == '[') {
      ++depth;
    } else if (here == '}' || here == ']') {
      --depth;
    }
  } while (depth > 0);
  Value value = {.text = std::string(ahead.substr(0, at)), .line = line_};
  consume(at);
  if (place_ == Place::kEntry) place_ = Place::kAfterEntry;
  return value;
}

}  // namespace braid::data
