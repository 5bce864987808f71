#include "braid/launch/log_text.h"

#include <algorithm>
#include <optional>

namespace braid::launch {
namespace {

constexpr size_t kLongestKept = 1000;

// Where the terminal sequence that begins at `line[at]`, an ESC, ends; nothing if none does. ESC [,
// parameters, one final byte in @ to ~ (colours, erasing); ESC ], text, BEL or ESC \ (window titles, links).
// ECMA-48, 5.4 and 8.3.89.
std::optional<size_t> end_of_sequence(std::string_view line, size_t at) {
  if (at + 1 == line.size()) return std::nullopt;
  if (line[at + 1] == '[') {
    size_t i = at + 2;
    while (i < line.size() && !('@' <= line[i] && line[i] <= '~')) ++i;
    return std::min(i + 1, line.size());
  }
  if (line[at + 1] == ']') {
    for (size_t i = at + 2; i < line.size(); ++i) {
      if (line[i] == '\a') return i + 1;
      if (line[i] == '\x1b') return std::min(i + 2, line.size());
    }
    return line.size();
  }
  return std::nullopt;
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f'; }

// `line` without terminal sequences, and with other control characters as \xHH: whoever reads the log on a
// terminal sees what was printed, and nothing acts on the terminal.
std::string without_controls(const std::string& line) {
  if (std::none_of(line.begin(), line.end(), is_control)) return line;
  std::string plain;
  for (size_t i = 0; i < line.size();) {
    if (!is_control(line[i])) {
      plain += line[i++];
      continue;
    }
    const std::optional<size_t> end = line[i] == '\x1b' ? end_of_sequence(line, i) : std::nullopt;
    if (end) {
      i = *end;
      continue;
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(line[i++]);
    plain += "\\x";
    plain += kDigits[code >> 4];
    plain += kDigits[code & 15];
  }
  return plain;
}

}  // namespace

std::string LogText::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    if (redraw_ && bytes[0] != '\r' && bytes[0] != '\n') {
      line_.clear();
      redraw_ = false;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) break;
    if (bytes[end] == '\r') {
      redraw_ = true;
    } else {
      end_line(out);
    }
    bytes.remove_prefix(end + 1);
  }
  if (line_.size() > kLongestLine) {
    out += without_controls(line_);
    line_.clear();
    in_long_line_ = true;
  }
  return out;
}

std::string LogText::finish() {
  std::string out;
  if (!without_controls(line_).empty() || in_long_line_) end_line(out);
  return out;
}

void LogText::end_line(std::string& out) {
  std::string plain = without_controls(line_);
  line_.clear();
  redraw_ = false;
  in_long_line_ = false;
  out += plain;
  out += '\n';
  plain.resize(std::min(plain.size(), kLongestKept));
  last_lines_.push_back(std::move(plain));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
}

}  // namespace braid::launch
