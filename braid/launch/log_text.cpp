#include "braid/launch/log_text.h"

#include <algorithm>
#include <utility>

namespace braid::launch {
namespace {

constexpr size_t kLongestKept = 1000;
constexpr std::string_view kBeginLogged = "\x1b_braid:";
constexpr std::string_view kNotLogged = "\x1b_braid:\x1b\\";  // such a line is for the terminal only
constexpr std::string_view kEndLogged = "\x1b\\";

// `line` without terminal control sequences: ESC [, parameters, one final byte in @ to ~ (ECMA-48,
// section 5.4).
std::string without_controls(const std::string& line) {
  if (const size_t begin = line.find(kBeginLogged); begin != std::string::npos) {
    const size_t text = begin + kBeginLogged.size();
    return line.substr(text, line.find(kEndLogged, text) - text);
  }
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
  if (line_.starts_with(kNotLogged)) {
    line_.clear();
    redraw_ = false;
    return;
  }
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

std::string with_log_line(std::string_view shown, std::string_view logged) {
  std::string text(kBeginLogged);
  text += logged;
  text += kEndLogged;
  for (const char c : shown) {
    text += c;
    if (c == '\n') text += kNotLogged;
  }
  return text;
}

std::string ShownText::take(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  while (true) {
    const size_t begin = held_.find(kBeginLogged);
    if (begin == std::string::npos) break;
    const size_t end = held_.find(kEndLogged, begin);
    out += held_.substr(0, begin);
    held_.erase(0, end == std::string::npos ? begin : end + kEndLogged.size());
    if (end == std::string::npos) return held_.size() > LogText::kLongestLine ? out + finish() : out;
  }
  size_t kept = std::min(held_.size(), kBeginLogged.size() - 1);
  while (!kBeginLogged.starts_with(std::string_view(held_).substr(held_.size() - kept))) --kept;
  out += held_.substr(0, held_.size() - kept);
  held_.erase(0, held_.size() - kept);
  return out;
}

std::string ShownText::finish() { return std::exchange(held_, {}); }

}  // namespace braid::launch
