#include "braid/data/text/text_source_utf8.h"

#include <cstring>

namespace braid::data {
namespace {

struct Step {
  size_t bytes = 0;  // of the character, or of the invalid part to replace by U+FFFD
  bool valid = false;
};

// The first character of `text`, which is not empty. Source: The Unicode Standard, table 3-7.
Step decode_one(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // of the second byte
  if (0xc2 <= lead && lead <= 0xdf) {
    length = 2;
  } else if (0xe0 <= lead && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (0xf0 <= lead && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || at(i) < low || at(i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = kHighBits;
    if (text.size() - at >= sizeof(word)) std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & kHighBits) == 0) {
      at += sizeof(word);
      continue;
    }
    const Step step = decode_one(text.substr(at));
    if (!step.valid) return at;
    at += step.bytes;
  }
  return at;
}

int64_t replace_invalid_utf8(std::string& text) {
  size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return 0;
  int64_t replaced = 0;
  std::string repaired;
  std::string_view rest = text;
  while (true) {
    repaired.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    repaired.append("\xef\xbf\xbd");
    ++replaced;
    rest.remove_prefix(decode_one(rest).bytes);
    valid = valid_utf8_prefix(rest);
  }
  text = std::move(repaired);
  return replaced;
}

std::string_view utf8_prefix(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xc0) == 0x80) --most_bytes;
  return text.substr(0, most_bytes);
}

}  // namespace braid::data
