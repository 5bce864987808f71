// Handling of possibly invalid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::data {

/// Length of the longest prefix of `text` that is valid UTF-8 (no surrogates, no overlong forms, at most
/// U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);

/// Replaces every maximal invalid part of `text` by U+FFFD, like web browsers and Python, and returns the
/// number of replacements. Source: The Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal
/// Subparts".
int64_t replace_invalid_utf8(std::string& text);

/// The longest prefix of at most `most_bytes` bytes that does not split a character of valid UTF-8.
std::string_view utf8_prefix(std::string_view text, size_t most_bytes);

}  // namespace braid::data
