// Help, Markdown and print-back of option tables.
#include <algorithm>
#include <array>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/option_spec.h"

namespace braid::config {
namespace {

constexpr size_t kWidth = 100;

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (const std::string& text : texts) {
    if (&text != &texts.front()) all += between;
    all += text.empty() ? "''" : text;
  }
  return all;
}

// The values that may be given: choices that would be rejected are not offered.
const std::vector<std::string>& offered(const OptionSpec& spec) {
  return spec.info.missing.empty() ? spec.info.choices : spec.info.supported;
}

// Choices stand in place of the type where they fit on a line, and among the limits elsewhere.
bool shows_choices_as_type(const OptionSpec& spec) {
  constexpr size_t kLongest = 72;
  return !spec.info.choices.empty() && !offered(spec).empty() &&
         joined(offered(spec), "|").size() <= kLongest;
}

std::string type_text(const OptionSpec& spec) {
  static constexpr std::array<const char*, 4> kNames = {"bool", "int", "float", "string"};
  std::string type = kNames[static_cast<size_t>(spec.kind)];
  if (shows_choices_as_type(spec)) type = joined(offered(spec), "|");
  return spec.is_list ? type + "..." : type;
}

std::string default_text(const OptionSpec& spec) {
  return spec.default_values.empty() ? "unset" : joined(spec.default_values, " ");
}

// Long choices, range, supported values and effect, in the order of both help and Markdown.
std::string limits_text(const OptionSpec& spec) {
  std::vector<std::string> parts;
  const bool all_supported = spec.info.missing.empty();
  if (!spec.info.choices.empty() && !shows_choices_as_type(spec)) parts.push_back(allowed_text(spec));
  const std::string range = range_text(spec.info.range);
  if (!range.empty() && all_supported) parts.push_back(range);
  if (!all_supported && spec.info.choices.empty()) {
    parts.push_back("supported: " +
                    (spec.info.supported.empty() ? "unset only" : joined(spec.info.supported, " or ")));
  }
  if (!spec.info.no_effect.empty()) parts.push_back("no effect");
  return joined(parts, "; ");
}

std::string full_help(const OptionSpec& spec) {
  std::string text = spec.info.help;
  if (!spec.info.no_effect.empty()) text += " No effect: " + spec.info.no_effect + ".";
  if (!spec.info.aliases.empty()) text += " Also --" + joined(spec.info.aliases, ", --") + ".";
  return text;
}

std::string wrapped(std::string_view text, size_t indent) {
  std::string all;
  std::string line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      all += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return all + std::string(indent, ' ') + line + "\n";
}

std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    // "<" would begin an HTML tag.
    if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// A YAML scalar that reads back as `text`: plain where that is safe, double-quoted otherwise.
std::string yaml_scalar(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '/' || c == '.' || c == '+' || c == '-';
  };
  const bool plain = !text.empty() && text != "null" && text != "Null" && text != "NULL" && text != "-" &&
                     !text.starts_with("--") && std::all_of(text.begin(), text.end(), is_plain);
  if (plain) return text;
  std::string quoted = "\"";
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string entry_text(const OptionSpec& spec) {
  const std::string limits = limits_text(spec);
  const std::string head = "  --" + spec.name + " <" + type_text(spec) + ">" +
                           (spec.info.unit.empty() ? "" : " " + spec.info.unit);
  const std::string facts = "[default: " + default_text(spec) + (limits.empty() ? "" : "; " + limits) + "]";
  const bool fits = head.size() + 2 + facts.size() <= kWidth;
  return head + (fits ? "  " + facts + "\n" : "\n" + wrapped(facts, 6)) + wrapped(full_help(spec), 6);
}

}  // namespace

std::string help_text(const CommandInfo& command, std::span<const OptionSpec> specs) {
  std::string text = "Usage: " + command.command + " " + command.usage + "\n\n" + wrapped(command.summary, 0);
  const std::string* group = nullptr;
  for (const OptionSpec& spec : specs) {
    if (group == nullptr || *group != spec.group) text += "\n" + spec.group + "\n";
    group = &spec.group;
    text += entry_text(spec);
  }
  return text;
}

std::string help_on(const CommandInfo& command, std::span<const OptionSpec> specs,
                    const std::optional<std::string>& topic) {
  if (topic && *topic != "all") {
    const std::string name = topic->substr(std::min(topic->find_first_not_of('-'), topic->size()));
    const OptionSpec* spec = find_option(specs, name);
    if (spec == nullptr) throw ConfigError(unknown_option_text(specs, name, cat("--help ", *topic)));
    return entry_text(*spec);
  }
  std::vector<OptionSpec> basic;
  for (const OptionSpec& spec : specs) {
    if (spec.info.is_basic) basic.push_back(spec);
  }
  if (topic || basic.empty()) return help_text(command, specs);
  return help_text(command, basic) + "\n" +
         cat("These are ", basic.size(), " of ", specs.size(), " options: ", command.command,
             " --help all lists the others, --help NAME shows one.\n");
}

std::string markdown_text(const CommandInfo& command, std::span<const OptionSpec> specs) {
  std::string text = "# Options of `" + command.command + "`\n\n`" + command.command + " " + command.usage +
                     "`\n\n" + command.summary + "\n";
  const std::string* group = nullptr;
  for (const OptionSpec& spec : specs) {
    if (group == nullptr || *group != spec.group) {
      text += "\n## " + spec.group + "\n\n| option | type | unit | default | allowed | meaning |\n" +
              "|---|---|---|---|---|---|\n";
    }
    group = &spec.group;
    text += "| `--" + spec.name + "` | " + cell(type_text(spec)) + " | " + cell(spec.info.unit) + " | " +
            cell(default_text(spec)) + " | " + cell(limits_text(spec)) + " | " + cell(full_help(spec)) +
            " |\n";
  }
  return text;
}

std::string print_back_text(std::span<const OptionSpec> specs,
                            std::span<const std::vector<std::string>> values) {
  require<InternalError>(specs.size() == values.size(), "print_back_text: ", specs.size(), " options but ",
                         values.size(), " values");
  std::string text;
  const std::string* group = nullptr;
  for (size_t i = 0; i < specs.size(); ++i) {
    const OptionSpec& spec = specs[i];
    if (group == nullptr || *group != spec.group) text += (i == 0 ? "# " : "\n# ") + spec.group + "\n";
    group = &spec.group;
    if (values[i].empty()) {
      text += "# " + spec.name + ": unset\n";
      continue;
    }
    std::vector<std::string> scalars;
    for (const std::string& value : values[i]) scalars.push_back(yaml_scalar(value));
    text += spec.name + ": " + (spec.is_list ? "[" + joined(scalars, ", ") + "]" : scalars.front());
    if (values[i] != spec.default_values) text += "  # default: " + default_text(spec);
    text += "\n";
  }
  return text;
}

}  // namespace braid::config
