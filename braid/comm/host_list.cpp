#include "braid/comm/host_list.h"

#include <cstdint>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::comm {
namespace {

// A longer list is damaged text or an attack, not a cluster.
constexpr size_t kMostHosts = 100'000;

[[noreturn]] void reject(std::string_view text, std::string_view why) {
  throw ConfigError(cat("Slurm list '", text, "' cannot be read: ", why));
}

// Splits at commas outside brackets, so that "a[1,2],b" has two pieces.
std::vector<std::string_view> top_level_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !inside)) {
      pieces.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[') {
      if (inside) reject(text, "nested brackets");
      inside = true;
    } else if (text[i] == ']') {
      if (!inside) reject(text, "']' without '['");
      inside = false;
    }
  }
  if (inside) reject(text, "'[' without ']'");
  return pieces;
}

std::string padded(int64_t number, size_t width) {
  std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

// Expands the contents of one pair of brackets: "01-03,7" gives 01, 02, 03, 7.
std::vector<std::string> numbers(std::string_view inside, std::string_view text) {
  std::vector<std::string> result;
  for (const std::string& range : split(inside, ',')) {
    const std::vector<std::string> ends = split(range, '-');
    const std::optional<int64_t> first = parse_int(ends.front());
    const std::optional<int64_t> last = parse_int(ends.back());
    if (ends.size() > 2 || !first || !last || *first < 0)
      reject(text, cat("'", range, "' is not a number or range"));
    if (*last < *first) reject(text, cat("range '", range, "' is descending"));
    if (static_cast<uint64_t>(*last - *first) >= kMostHosts) reject(text, "more than 100000 hosts");
    for (int64_t number = *first; number <= *last; ++number) {
      result.push_back(padded(number, ends.front().size()));
    }
    if (result.size() > kMostHosts) reject(text, "more than 100000 hosts");
  }
  return result;
}

std::vector<std::string> expand_piece(std::string_view piece, std::string_view text) {
  std::vector<std::string> names = {""};
  size_t at = 0;
  while (at < piece.size()) {
    const size_t open = piece.find('[', at);
    for (std::string& name : names) name += piece.substr(at, open == piece.npos ? piece.npos : open - at);
    if (open == piece.npos) break;
    const size_t close = piece.find(']', open);
    const std::vector<std::string> choices = numbers(piece.substr(open + 1, close - open - 1), text);
    if (names.size() * choices.size() > kMostHosts) reject(text, "more than 100000 hosts");
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& choice : choices) longer.push_back(name + choice);
    }
    names = std::move(longer);
    at = close + 1;
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view piece : top_level_pieces(text)) {
    if (trim(piece).empty()) reject(text, "an empty host name");
    for (std::string& host : expand_piece(trim(piece), text)) hosts.push_back(std::move(host));
    if (hosts.size() > kMostHosts) reject(text, "more than 100000 hosts");
  }
  return hosts;
}

std::vector<int> expand_tasks_per_node(std::string_view text) {
  std::vector<int> tasks;
  for (const std::string& piece : split(text, ',')) {
    const size_t open = piece.find("(x");
    std::optional<int64_t> repeat = 1;
    if (open != piece.npos) {
      if (piece.back() != ')') reject(text, "'(x' without ')'");
      repeat = parse_int(std::string_view(piece).substr(open + 2, piece.size() - open - 3));
    }
    const std::optional<int64_t> count = parse_int(std::string_view(piece).substr(0, open));
    if (!count || !repeat || *count < 1 || *repeat < 1 || *count > INT32_MAX ||
        *repeat > static_cast<int64_t>(kMostHosts) ||
        tasks.size() + static_cast<size_t>(*repeat) > kMostHosts) {
      reject(text, cat("'", piece, "' is not a count of tasks"));
    }
    tasks.insert(tasks.end(), static_cast<size_t>(*repeat), static_cast<int>(*count));
  }
  return tasks;
}

}  // namespace braid::comm
