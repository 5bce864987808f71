// What is known of one option besides the field that holds it, and the texts made from that.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::config {

/// The numbers an option takes; bounds left out do not bind.
struct Range {
  std::optional<double> at_least = std::nullopt;
  std::optional<double> above = std::nullopt;
  std::optional<double> below = std::nullopt;
  std::optional<double> at_most = std::nullopt;
  /// One more number, outside the bounds, with a meaning of its own (such as -1 for "off").
  std::optional<double> also = std::nullopt;

  bool operator==(const Range&) const = default;
};

bool contains(const Range& range, double number);

/// ">= 1", "-1 or >= 1", "> 0 and < 1"; empty if nothing binds.
std::string range_text(const Range& range);

/// What a table declares of an option.
struct OptionInfo {
  /// One or two sentences: what it does, and what happens where it is left out if the default does not say.
  std::string help;
  std::string unit = {};
  Range range = {};
  /// The texts it takes; empty: any.
  std::vector<std::string> choices = {};
  /// The values, as printed back, that this version carries out; empty: all, or none where `missing` is set.
  std::vector<std::string> supported = {};
  /// What the other values need and this version lacks, as in "this version of braid has no <missing>".
  std::string missing = {};
  /// Why its value makes no difference here; whoever gives the option is told. Empty: it makes one.
  std::string no_effect = {};
  /// Names that mean the same.
  std::vector<std::string> aliases = {};
};

enum class OptionKind { kSwitch, kInteger, kReal, kText };

struct OptionSpec {
  std::string name;
  std::string group;
  OptionKind kind = OptionKind::kText;
  /// Takes several values: on the command line all that follow, up to the next flag.
  bool is_list = false;
  /// The values of a default-made struct, as text; empty where it is unset.
  std::vector<std::string> default_values = {};
  OptionInfo info;
};

/// The head of a command's help.
struct CommandInfo {
  /// "braid pretrain"
  std::string command;
  /// What follows it, such as "[FILE] [--flag value | --flag=value]...".
  std::string usage;
  std::string summary;
};

/// One option given a value: by a flag or by a line of a file.
struct Assignment {
  std::string name;
  std::vector<std::string> values;
  /// Where it was given, in front of messages: "--max_steps", "run.yaml:12: max_steps".
  std::string label;
};

/// The option called `name`, by an alias too; null if there is none.
const OptionSpec* find_option(std::span<const OptionSpec> specs, std::string_view name);

/// "a whole number, -1 or >= 1"; "true or false"; "one of linear, cosine".
std::string allowed_text(const OptionSpec& spec);

/// `value` as it is printed back (numbers in their shortest form, switches as true or false) if the option
/// takes it and this version carries it out. Throws ConfigError otherwise: `label`, the value, and what is
/// allowed or lacking.
std::string checked_value(const OptionSpec& spec, const std::string& value, std::string_view label);

/// "unknown ... : did you mean ...". `label` says where it was found.
[[noreturn]] void throw_unknown_option(std::span<const OptionSpec> specs, std::string_view name,
                                       std::string_view label);

/// The help text: usage, summary, then the options by group with type, unit, default and range.
std::string help_text(const CommandInfo& command, std::span<const OptionSpec> specs);

/// The same as Markdown, one table a group.
std::string markdown_text(const CommandInfo& command, std::span<const OptionSpec> specs);

/// Every option with its values as a YAML file that gives the same options again; "# default ..." marks what
/// differs from the default, unset options are comments.
std::string print_back_text(std::span<const OptionSpec> specs,
                            std::span<const std::vector<std::string>> values);

}  // namespace braid::config
