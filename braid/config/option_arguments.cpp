#include "braid/config/option_arguments.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "braid/config/option_value.h"

namespace braid::config {
namespace {

bool is_flag(std::string_view argument) { return argument.starts_with("--") && argument.size() > 2; }

// "-n", "-max_steps", but not "-1".
bool is_short_flag(std::string_view argument) {
  return argument == "--" ||
         (argument.size() > 1 && argument[0] == '-' &&
          ((argument[1] >= 'a' && argument[1] <= 'z') || (argument[1] >= 'A' && argument[1] <= 'Z')));
}

// One command line on its way to assignments.
class Reading {
 public:
  Reading(std::span<const std::string> arguments, std::span<const OptionSpec> specs, Positionals positionals,
          ErrorList& errors, std::string_view advice)
      : arguments_(arguments), specs_(specs), positionals_(positionals), errors_(errors), advice_(advice) {}

  ParsedArguments run() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_];
      const bool is_any_flag = is_flag(argument) || is_short_flag(argument);
      if (positionals_ == Positionals::kStopAtFirst && !is_any_flag) break;
      ++next_;
      if (is_flag(argument)) {
        read_flag(argument);
      } else if (is_any_flag && positionals_ == Positionals::kStopAtFirst) {
        reject_unknown(argument, argument);
      } else {
        read_word(argument, is_any_flag);
      }
    }
    parsed_.rest.insert(parsed_.rest.end(), arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                        arguments_.end());
    return std::move(parsed_);
  }

 private:
  bool has_value() const { return next_ < arguments_.size() && !is_flag(arguments_[next_]); }

  void read_flag(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const OptionSpec* spec = find_option(specs_, flag.substr(2));
    if (spec == nullptr) return reject_unknown(flag, argument);
    Assignment given{.name = spec->name, .values = {}, .label = flag};
    if (equals != std::string::npos) {
      given.values.push_back(argument.substr(equals + 1));
    } else if (spec->is_list) {
      while (has_value()) given.values.push_back(arguments_[next_++]);
    } else if (spec->kind == OptionKind::kSwitch) {
      const bool is_set = has_value() && read_value<bool>(arguments_[next_]).has_value();
      given.values.push_back(is_set ? arguments_[next_++] : "true");
    } else if (has_value()) {
      given.values.push_back(arguments_[next_++]);
    }
    add(std::move(given), *spec);
  }

  void add(Assignment given, const OptionSpec& spec) {
    const std::string& flag = given.label;
    errors_.check(!given.values.empty(), flag, " needs a value: ", allowed_text(spec));
    if (given.values.empty()) return;
    for (const Assignment& earlier : parsed_.assignments) {
      if (earlier.name != given.name) continue;
      errors_.check(false, flag, " is given twice, as '", earlier.values.front(), "' and as '",
                    given.values.front(), "'; keep one");
      return;
    }
    parsed_.assignments.push_back(std::move(given));
  }

  // What follows an unknown flag is probably its value, not another mistake.
  void reject_unknown(const std::string& flag, const std::string& argument) {
    const size_t begin = std::min(flag.find_first_not_of('-'), flag.size());
    errors_.check(false, unknown_option_text(specs_, flag.substr(begin), flag), advice_);
    if (argument.find('=') != std::string::npos) return;
    if (positionals_ != Positionals::kStopAtFirst) {
      while (has_value()) ++next_;
    } else if (has_value() && !is_command(arguments_[next_])) {
      ++next_;
    }
  }

  // Commands are words of small letters, which values of a launcher's options hardly are.
  static bool is_command(const std::string& word) {
    return std::all_of(word.begin(), word.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '/'; });
  }

  void read_word(const std::string& argument, bool lacks_a_dash) {
    if (positionals_ == Positionals::kCollect && !lacks_a_dash) return parsed_.rest.push_back(argument);
    errors_.check(false, "unexpected argument '", argument, "': options are given as --name value",
                  argument.starts_with('-') ? ", with two dashes" : "");
    if (lacks_a_dash) {
      while (has_value()) ++next_;
    }
  }

  std::span<const std::string> arguments_;
  std::span<const OptionSpec> specs_;
  Positionals positionals_;
  ErrorList& errors_;
  std::string_view advice_;
  size_t next_ = 0;
  ParsedArguments parsed_;
};

}  // namespace

ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals) {
  ErrorList errors;
  ParsedArguments parsed = parse_arguments(arguments, specs, positionals, errors);
  errors.throw_if_any();
  return parsed;
}

ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals, ErrorList& errors, std::string_view advice) {
  return Reading(arguments, specs, positionals, errors, advice).run();
}

}  // namespace braid::config
