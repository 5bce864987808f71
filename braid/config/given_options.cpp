#include "braid/config/given_options.h"

#include <algorithm>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/config/option_arguments.h"
#include "braid/config/option_file.h"
#include "braid/config/paddlenlp_options.h"

namespace braid::config {
namespace {

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The options that a message names: words with underscores, and those behind two dashes.
std::set<std::string> options_in(const std::string& message) {
  std::set<std::string> names;
  for (size_t begin = 0; begin < message.size();) {
    size_t end = begin;
    while (end < message.size() && is_word_letter(message[end])) ++end;
    const std::string word = message.substr(begin, end - begin);
    const bool is_flag = begin >= 2 && message.compare(begin - 2, 2, "--") == 0;
    if (!word.empty() && (is_flag || word.find('_') != std::string::npos)) names.insert(word);
    begin = std::max(end, begin + 1);
  }
  return names;
}

// Options have several names; from here on each has its own.
void use_own_names(std::vector<Assignment>& assignments, std::span<const OptionSpec> specs) {
  for (Assignment& given : assignments) {
    if (const OptionSpec* spec = find_option(specs, given.name)) given.name = spec->name;
  }
}

void reject_repeated(const std::vector<Assignment>& file, ErrorList& errors) {
  for (size_t i = 0; i < file.size(); ++i) {
    const auto end = file.begin() + static_cast<std::ptrdiff_t>(i);
    const auto earlier =
        std::find_if(file.begin(), end, [&](const Assignment& a) { return a.name == file[i].name; });
    errors.check(earlier == end, file[i].label, " is given twice, ", earlier->label, " is the same option");
  }
}

// Moves PaddleNLP's other options out of `given`.
void sort_out(GivenOptions& given, ErrorList& errors) {
  const std::span<const OptionSpec> others = paddlenlp_options();
  std::vector<Assignment> own;
  for (Assignment& assignment : given.assignments) {
    const OptionSpec* spec = find_option(others, assignment.name);
    if (spec == nullptr) {
      own.push_back(std::move(assignment));
      continue;
    }
    const bool is_right = errors.attempt([&] {
      require<ConfigError>(spec->is_list || assignment.values.size() == 1, assignment.label,
                           " takes one value, ", allowed_text(*spec), "; got ", assignment.values.size());
      for (const std::string& value : assignment.values) checked_value(*spec, value, assignment.label);
    });
    if (is_right) {
      std::string value;
      for (const std::string& one : assignment.values) value += (value.empty() ? "" : " ") + one;
      given.unused.push_back({.label = cat(assignment.label, " ", value), .reason = spec->info.no_effect});
    }
  }
  given.assignments = std::move(own);
}

}  // namespace

GivenOptions given_options(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                           ErrorList& errors) {
  std::vector<OptionSpec> all(specs.begin(), specs.end());
  all.insert(all.end(), paddlenlp_options().begin(), paddlenlp_options().end());
  ParsedArguments flags = parse_arguments(arguments, all, Positionals::kCollect, errors);

  GivenOptions given;
  const auto is_file = [](const std::string& word) {
    return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
  };
  bool has_file = false;
  for (const std::string& word : flags.rest) {
    errors.check(is_file(word), "unexpected argument '", word,
                 "': options are given as --name value, and a FILE of options ends in .yaml, .yml or .json");
    if (!is_file(word)) {
      // Perhaps it was to be the file that has everything.
      if (flags.assignments.empty()) given.is_complete = false;
      continue;
    }
    errors.check(!has_file, "unexpected argument '", word, "': options are read from one FILE");
    if (has_file) continue;
    has_file = true;
    given.is_complete =
        errors.attempt([&] { given.assignments = options_of(read_file_value(word), errors); });
  }
  use_own_names(given.assignments, all);
  reject_repeated(given.assignments, errors);
  given.assignments.insert(given.assignments.end(), flags.assignments.begin(), flags.assignments.end());
  sort_out(given, errors);
  return given;
}

void attempt_unexplained(ErrorList& errors, const std::function<void()>& act) {
  std::set<std::string> explained;
  for (const std::string& message : errors.messages()) explained.merge(options_in(message));
  ErrorList more;
  more.attempt(act);
  for (const std::string& message : more.messages()) {
    const std::set<std::string> names = options_in(message);
    const bool is_new =
        std::none_of(names.begin(), names.end(), [&](const auto& name) { return explained.contains(name); });
    errors.check(!is_new, message);
  }
}

}  // namespace braid::config
