#include "braid/config/json.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "braid/base/text.h"

namespace braid::config {
namespace {

using nlohmann::json;

// The word or character of `text` at `at`.
std::string_view token_at(std::string_view text, size_t at) {
  constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";
  if (kWord.find(text[at]) == kWord.npos)
    return text.substr(at, std::max<size_t>(1, utf8_character_bytes(text, at)));
  size_t begin = at;
  while (begin > 0 && kWord.find(text[begin - 1]) != kWord.npos) --begin;
  const size_t end = text.find_first_not_of(kWord, at);
  return text.substr(begin, end == text.npos ? end : end - begin);
}

}  // namespace

std::string json_error_text(std::string_view text, const json::exception& error) {
  const auto* parse_error = dynamic_cast<const json::parse_error*>(&error);
  if (parse_error == nullptr) return "a number is too large";  // the only other error of its parser
  if (trim(text).empty()) return "it is empty";
  // The library counts the characters up to and including the one that it rejects.
  const size_t at = parse_error->byte == 0 ? 0 : parse_error->byte - 1;
  if (at >= text.size()) return "it ends too early";
  const std::string_view token = token_at(text, at);
  const std::string_view before = text.substr(0, static_cast<size_t>(token.data() - text.data()));
  const size_t line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  const bool is_number = token == "NaN" || token == "Infinity" || token == "-Infinity";
  return cat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
             1 + before.size() - line_start, ": unexpected ", printable(token),
             is_number ? "; JSON has finite numbers only" : "");
}

json parse_json(std::string_view text, std::string_view file_name) {
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      require<ConfigError>(keys.back().insert(value.get<std::string>()).second, file_name, " has the key ",
                           printable(value.get<std::string>()),
                           " twice; which of the two holds is not clear: remove one");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    throw ConfigError(cat(file_name, " is not valid JSON: ", json_error_text(text, error)));
  }
}

}  // namespace braid::config
