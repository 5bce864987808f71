#include "braid/report/log_entry.h"

#include <string_view>

#include "braid/base/error.h"

namespace braid::report {

std::string full_line(const LogEntry& entry) {
  std::string line;
  for (const Metric& metric : entry.metrics) {
    line += cat(line.empty() ? "" : ", ", metric.key, ": ", metric.text);
  }
  return line;
}

std::string short_line(const LogEntry& entry, std::optional<int64_t> columns) {
  std::string line;
  for (const std::string& part : entry.brief) {
    const std::string longer = line.empty() ? part : cat(line, "  ", part);
    if (!line.empty() && columns && std::ssize(longer) > *columns) break;
    line = longer;
  }
  return line;
}

std::string curve_name(const Metric& metric) {
  std::string name = metric.key;
  for (char& c : name) {
    if (c == ' ') c = '_';
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const std::string_view part : {"eval", "test"}) {
    if (name.starts_with(cat(part, "_"))) return cat(part, "/", name.substr(part.size() + 1));
  }
  return cat("train/", name);
}

}  // namespace braid::report
