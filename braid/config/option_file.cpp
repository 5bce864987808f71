#include "braid/config/option_file.h"

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::config {

std::vector<Assignment> read_option_file(const std::string& path) {
  return options_of(read_file_value(path));
}

std::vector<Assignment> options_of(const FileValue& file) {
  ErrorList errors;
  std::vector<Assignment> assignments = options_of(file, errors);
  errors.throw_if_any();
  return assignments;
}

std::vector<Assignment> options_of(const FileValue& file, ErrorList& errors) {
  std::vector<Assignment> assignments;
  if (file.kind == FileValue::Kind::kNothing) return assignments;
  require<ConfigError>(file.kind == FileValue::Kind::kMap, file.where,
                       ": expected names and values, as in name: value, got ", kind_text(file));
  for (const FileValue& entry : file.items) {
    const std::string label = cat(entry.where, ": ", entry.key);
    const bool is_new = std::none_of(assignments.begin(), assignments.end(),
                                     [&](const Assignment& earlier) { return earlier.name == entry.key; });
    errors.check(is_new, label, " is given twice; keep one");
    errors.attempt([&] {
      Assignment assignment{.name = entry.key, .values = value_texts(entry, label), .label = label};
      if (is_new) assignments.push_back(std::move(assignment));
    });
  }
  return assignments;
}

}  // namespace braid::config
