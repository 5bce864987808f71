#include "braid/launch/log_text.h"

#include <algorithm>

namespace braid::launch {
namespace {

constexpr size_t kLongestKept = 1000;

// `line` without terminal control sequences: ESC [, parameters, one final byte in @ to ~ (ECMA-48,
// section 5.4).
std::string without_controls(const std::string& line) {
  if (line.find("\x1b[") == std::string::npos) return line;
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b' || i + 1 == line.size() || line[i + 1] != '[') {
      plain += line[i];
      continue;
    }
    i += 2;
    while (i < line.size() && !('@' <= line[i] && line[i] <= '~')) ++i;
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
