#include "braid/config/option_file.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/config/error_list.h"

namespace braid::config {

std::vector<Assignment> read_option_file(const std::string& path) {
  return options_of(read_file_value(path));
}

std::vector<Assignment> options_of(const FileValue& file) {
  std::vector<Assignment> assignments;
  if (file.kind == FileValue::Kind::kNothing) return assignments;
  require<ConfigError>(file.kind == FileValue::Kind::kMap, file.where,
                       ": expected names and values, as in name: value, got ", kind_text(file));
  ErrorList errors;
  for (const FileValue& entry : file.items) {
    const std::string label = cat(entry.where, ": ", entry.key);
    const bool is_new = std::none_of(assignments.begin(), assignments.end(),
                                     [&](const Assignment& earlier) { return earlier.name == entry.key; });
    errors.check(is_new, label, " is given twice; keep one");
    errors.attempt([&] {
      assignments.push_back({.name = entry.key, .values = value_texts(entry, label), .label = label});
    });
  }
  errors.throw_if_any();
  return assignments;
}

}  // namespace braid::config
