#include "braid/base/printable.h"

#include <array>
#include <cstdint>

namespace braid {
namespace {

std::string hexadecimal(uint32_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(static_cast<size_t>(digits), '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4) *digit = kDigits[value & 0xf];
  return text;
}

// The code point of the valid character in `bytes`.
uint32_t code_point(std::string_view bytes) {
  constexpr std::array<uint32_t, 5> kFirstMask = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t value = static_cast<unsigned char>(bytes.front()) & kFirstMask[bytes.size()];
  for (const char c : bytes.substr(1)) value = value << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return value;
}

// Beyond ASCII: the second set of control characters, line and paragraph separators, and what changes the
// direction of the text around it (Unicode's bidirectional controls).
bool acts_on_terminal(uint32_t code) {
  return (0x80 <= code && code < 0xa0) || code == 0x61c || (0x200e <= code && code <= 0x200f) ||
         (0x2028 <= code && code <= 0x202e) || (0x2066 <= code && code <= 0x2069);
}

enum class Breaks : uint8_t { kEscaped, kKept };
enum class Invalid : uint8_t { kEscaped, kReplaced };

std::string escape(std::string_view text, Breaks breaks, Invalid invalid = Invalid::kEscaped) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_character_bytes(text, at);
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    at += character.size();
    const auto byte = static_cast<unsigned char>(character.front());
    if (length == 0 && invalid == Invalid::kReplaced) {
      result += "\xef\xbf\xbd";
    } else if (length == 0 || byte == 0x7f) {
      result += "\\x" + hexadecimal(byte, 2);
    } else if (byte < 0x20) {
      const bool is_break = byte == '\n' || byte == '\t';
      if (is_break && breaks == Breaks::kKept)
        result += character;
      else if (is_break)
        result += byte == '\n' ? "\\n" : "\\t";
      else
        result += "\\x" + hexadecimal(byte, 2);
    } else if (length > 1 && acts_on_terminal(code_point(character))) {
      result += "\\u{" + hexadecimal(code_point(character), 4) + "}";
    } else {
      result += character;
    }
  }
  return result;
}

}  // namespace

std::string escaped(std::string_view text) { return escape(text, Breaks::kEscaped); }

std::string escaped_lines(std::string_view text) { return escape(text, Breaks::kKept); }

std::string displayable(std::string_view text) { return escape(text, Breaks::kKept, Invalid::kReplaced); }

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 120;
  size_t shown = text.size();
  if (shown > kLongest) {
    shown = kLongest;
    // Not in the middle of a character.
    while (shown > 0 && (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80) --shown;
  }
  return '"' + escaped(text.substr(0, shown)) + (shown < text.size() ? "...\"" : "\"");
}

size_t utf8_character_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const size_t left = text.size() - at;
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and numbers beyond U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace braid
