#include "braid/comm/error_text.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::comm {
namespace {

struct Translation {
  const char* pattern;  // of what the library says
  const char* meaning;  // $1, $2: what the pattern's groups have found
};

// Addresses are "[10.0.0.2]:41234" in Gloo's messages. The port is an ephemeral one, which helps nobody.
constexpr std::array kTranslations = {
    Translation{"Connection closed by peer \\[([^\\]]*)\\]", "the rank at $1 has closed the connection"},
    Translation{"Read error \\[([^\\]]*)\\]:\\d+: Connection reset by peer",
                "the rank at $1 has broken the connection"},
    Translation{"Write error \\[([^\\]]*)\\]:\\d+: (Broken pipe|Connection reset by peer)",
                "the rank at $1 has closed the connection"},
    Translation{"Timed out waiting (\\d+) ?ms for (send|recv|receive)", "no answer within $1 ms"},
    Translation{"Connect timeout \\[([^\\]]*)\\]", "$1 did not accept a connection in time"},
    Translation{"Application timeout caused pair closure",
                "another message of this rank had no answer in time"},
    Translation{"[Ww]ait timeout|Socket Timeout|[Tt]imed out", "no answer in time"},
    Translation{"Connection reset by peer|Broken pipe|[Ss]ocket closed|Connection was likely closed",
                "another rank has closed the connection"},
    Translation{"Connection refused", "nobody listens there"},
    Translation{"No route to host|Network is unreachable", "the network does not lead there"},
};

std::optional<std::string> translated(const std::string& text) {
  for (const Translation& translation : kTranslations) {
    std::smatch found;
    if (std::regex_search(text, found, std::regex(translation.pattern)))
      return found.format(translation.meaning);
  }
  return std::nullopt;
}

// The first line, without Gloo's "[file:line] " in front and its advice behind.
std::string first_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != text.npos) text.erase(0, end + 2);
  }
  for (const char* advice : {". This is typically caused by", " This is typically caused by"}) {
    text = text.substr(0, text.find(advice));
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return std::string(trim(text));
}

// How the texts begin that braid itself throws through c10d's interface.
constexpr std::array<std::string_view, 2> kOwnTexts = {"store timeout after ", "the store of rank 0 "};

bool is_own(const std::exception& error, const std::string& text) {
  if (dynamic_cast<const CommError*>(&error) != nullptr ||
      dynamic_cast<const ConfigError*>(&error) != nullptr)
    return true;
  return std::ranges::any_of(kOwnTexts, [&](std::string_view own) { return text.starts_with(own); });
}

}  // namespace

std::string short_reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text =
      first_line(torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
  if (is_own(error, text)) return text;
  if (std::optional<std::string> meaning = translated(text)) return std::move(*meaning);
  return cat("libtorch says '", text, "'");
}

void silence_library_log() { FLAGS_caffe2_log_level = c10::GLOG_FATAL; }

}  // namespace braid::comm
