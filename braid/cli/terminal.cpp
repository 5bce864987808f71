#include "braid/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "braid/base/text.h"

namespace braid::cli {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr int64_t kDefaultColumns = 80;

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

bool is_dumb(const Environment& environment) { return value_of(environment, "TERM") == "dumb"; }

int64_t columns_variable(const Environment& environment) {
  const auto columns = parse_int(value_of(environment, "COLUMNS"));
  return columns && *columns >= 1 ? *columns : kDefaultColumns;
}

std::optional<int64_t> width_of(int terminal) {
  winsize size{};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace

std::optional<int64_t> terminal_columns(int descriptor, const Environment& environment) {
  if (is_dumb(environment)) return std::nullopt;
  if (::isatty(descriptor) == 1) return width_of(descriptor).value_or(columns_variable(environment));
  if (value_of(environment, "BRAID_PROGRESS") != "1") return std::nullopt;
  const auto terminal = parse_int(value_of(environment, "BRAID_TERMINAL_FD"));
  const auto width =
      terminal && std::in_range<int>(*terminal) ? width_of(static_cast<int>(*terminal)) : std::nullopt;
  return width.value_or(columns_variable(environment));
}

bool allows_colours(const Environment& environment) {
  return value_of(environment, "NO_COLOR").empty() && !is_dumb(environment);
}

}  // namespace braid::cli
