// Conversion of option values from and to text, for each type that a field may have.
#pragma once

#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "braid/base/text.h"
#include "braid/config/option_spec.h"

namespace braid::config {

namespace detail {

template <typename Value>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;
template <typename Value>
inline constexpr bool kIsList = false;
template <typename Value>
inline constexpr bool kIsList<std::vector<Value>> = true;

// Value itself, or the element type of an optional or a list.
template <typename Value>
struct Scalar {
  using type = Value;
};
template <typename Value>
struct Scalar<std::optional<Value>> {
  using type = Value;
};
template <typename Value>
struct Scalar<std::vector<Value>> {
  using type = Value;
};

}  // namespace detail

/// The kind of an option whose field has this type.
template <typename Value>
constexpr OptionKind kind_of() {
  using Scalar = typename detail::Scalar<Value>::type;
  if constexpr (std::same_as<Scalar, bool>) {
    return OptionKind::kSwitch;
  } else if constexpr (std::integral<Scalar> || std::same_as<Scalar, std::chrono::seconds>) {
    return OptionKind::kInteger;
  } else if constexpr (std::same_as<Scalar, double>) {
    return OptionKind::kReal;
  } else {
    static_assert(std::same_as<Scalar, std::string>,
                  "options hold bool, integers, seconds, double or string");
    return OptionKind::kText;
  }
}

/// The whole of `text` as a bool (0, 1, true, false, yes, no, in any letter case), a whole number that fits,
/// a finite number or a string; nothing if it is not one.
template <typename Value>
std::optional<Value> read_value(std::string_view text) {
  if constexpr (std::same_as<Value, bool>) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower == "1" || lower == "true" || lower == "yes") return true;
    if (lower == "0" || lower == "false" || lower == "no") return false;
    return std::nullopt;
  } else if constexpr (std::integral<Value>) {
    const auto number = parse_int(text);
    if (!number || !std::in_range<Value>(*number)) return std::nullopt;
    return static_cast<Value>(*number);
  } else if constexpr (std::same_as<Value, std::chrono::seconds>) {
    const auto number = parse_int(text);
    if (!number) return std::nullopt;
    return std::chrono::seconds(*number);
  } else if constexpr (std::same_as<Value, double>) {
    const auto number = parse_double(text);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    return number;
  } else {
    return Value(text);
  }
}

/// The text that read_value converts to exactly `value`.
template <typename Value>
std::string write_value(const Value& value) {
  if constexpr (std::same_as<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::integral<Value>) {
    return std::to_string(value);
  } else if constexpr (std::same_as<Value, std::chrono::seconds>) {
    return std::to_string(value.count());
  } else if constexpr (std::same_as<Value, double>) {
    return to_text(value);
  } else {
    return value;
  }
}

}  // namespace braid::config
