// JSON parsing with readable errors. Included by source files only: the library's header is large.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/printable.h"

namespace braid::config {

/// Where and why `text` is not valid JSON, for the error with which the library rejected it: "line 2, column
/// 18: unexpected "}"".
std::string json_error_text(std::string_view text, const nlohmann::json::exception& error);

/// The value of `text`. Throws ConfigError with the position and `file_name` if it is not valid JSON or an
/// object has a key twice.
nlohmann::json parse_json(std::string_view text, std::string_view file_name);

/// `value` as JSON text on one line, truncated to 80 bytes, for messages.
inline std::string json_text(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return escaped(text);
}

/// `value` as a whole number (2 or 2.0), or nothing if it is not one.
inline std::optional<int64_t> json_int(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53: up to it, a double is exact for whole numbers
    if (number >= -kExact && number <= kExact &&
        number == static_cast<double>(static_cast<int64_t>(number))) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

}  // namespace braid::config
