#include "braid/config/option_arguments.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "braid/base/error.h"
#include "braid/config/option_value.h"

namespace braid::config {
namespace {

bool is_flag(std::string_view argument) { return argument.starts_with("--") && argument.size() > 2; }

}  // namespace

ParsedArguments parse_arguments(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                                Positionals positionals) {
  ParsedArguments parsed;
  size_t next = 0;
  while (next < arguments.size()) {
    const std::string& argument = arguments[next];
    if (!is_flag(argument)) {
      if (positionals == Positionals::kStopAtFirst) break;
      require<ConfigError>(positionals == Positionals::kCollect, "unexpected argument '", argument,
                           "': options are given as --name value",
                           argument.starts_with('-') ? ", with two dashes" : "");
      parsed.rest.push_back(argument);
      ++next;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const OptionSpec* spec = find_option(specs, flag.substr(2));
    if (spec == nullptr) throw_unknown_option(specs, flag.substr(2), flag);
    ++next;

    Assignment given{.name = spec->name, .values = {}, .label = flag};
    if (equals != std::string::npos) {
      given.values.push_back(argument.substr(equals + 1));
    } else if (spec->is_list) {
      while (next < arguments.size() && !is_flag(arguments[next])) given.values.push_back(arguments[next++]);
    } else if (spec->kind == OptionKind::kSwitch) {
      const bool has_value = next < arguments.size() && read_value<bool>(arguments[next]).has_value();
      given.values.push_back(has_value ? arguments[next++] : "true");
    } else if (next < arguments.size() && !is_flag(arguments[next])) {
      given.values.push_back(arguments[next++]);
    }
    require<ConfigError>(!given.values.empty(), flag, " needs a value: ", allowed_text(*spec));
    for (const Assignment& earlier : parsed.assignments) {
      require<ConfigError>(earlier.name != given.name, flag, " is given twice, as '", earlier.values.front(),
                           "' and as '", given.values.front(), "'; keep one");
    }
    parsed.assignments.push_back(std::move(given));
  }
  parsed.rest.insert(parsed.rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(next),
                     arguments.end());
  return parsed;
}

}  // namespace braid::config
