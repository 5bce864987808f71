// The description of an option (everything but its field), and the texts generated from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::config {

/// The numbers that an option accepts; unset bounds do not apply.
struct Range {
  std::optional<double> at_least = std::nullopt;
  std::optional<double> above = std::nullopt;
  std::optional<double> below = std::nullopt;
  std::optional<double> at_most = std::nullopt;
  /// One special value outside the bounds (such as -1 for "off").
  std::optional<double> also = std::nullopt;

  bool operator==(const Range&) const = default;
};

bool contains(const Range& range, double number);

/// ">= 1", "-1 or >= 1", "> 0 and < 1"; empty without bounds.
std::string range_text(const Range& range);

/// The properties of an option that its table declares.
struct OptionInfo {
  /// One or two sentences: what it does, and what an unset value means.
  std::string help;
  std::string unit = {};
  Range range = {};
  /// The accepted texts; empty: any.
  std::vector<std::string> choices = {};
  /// The values, as printed back, that this version supports; empty: all, or none if `missing` is set.
  std::vector<std::string> supported = {};
  /// What the other values need, as in "this version of braid does not support <missing>".
  std::string missing = {};
  /// Why its value has no effect, reported if the option is given. Empty: it has one.
  std::string no_effect = {};
  /// Alternative names.
  std::vector<std::string> aliases = {};
  /// What other trainers call it: such a flag is rejected with this option as the suggestion, since its
  /// values may mean something else.
  std::vector<std::string> known_as = {};
  /// The table's own spelling of a value that people spell differently, or the value itself. Empty: none.
  std::function<std::string(const std::string&)> spelling = {};
  /// One of the few options that the short help shows.
  bool is_basic = false;
};

enum class OptionKind { kSwitch, kInteger, kReal, kText };

struct OptionSpec {
  std::string name;
  std::string group;
  OptionKind kind = OptionKind::kText;
  /// Accepts several values: on the command line, all up to the next flag.
  bool is_list = false;
  /// The values in a default-constructed struct, as text; empty if unset.
  std::vector<std::string> default_values = {};
  OptionInfo info;
};

/// The beginning of a command's help.
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
  /// Where it was given, for the beginning of messages: "--max_steps", "run.yaml:12: max_steps".
  std::string label;
};

/// A given option that changes nothing.
struct NoEffect {
  std::string label;  ///< where it was given, with its value: "--share_folder 1"
  std::string reason;
};

/// "<label> has no effect: <reason>" for each.
std::vector<std::string> notes_of(std::span<const NoEffect> all);

/// The option with the name or alias `name`, in which dashes stand for underscores too; null if there is
/// none.
const OptionSpec* find_option(std::span<const OptionSpec> specs, std::string_view name);

/// "a whole number, -1 or >= 1"; "true or false"; "one of linear, cosine".
std::string allowed_text(const OptionSpec& spec);

/// `value` as it is printed back (numbers in their shortest form, switches as true or false). Throws
/// ConfigError with `label`, the value, and what is allowed or unsupported unless the option accepts it and
/// this version supports it.
std::string checked_value(const OptionSpec& spec, const std::string& value, std::string_view label);

/// "<label>: there is no such option", with the option that was probably meant: one that other trainers call
/// `name`, or the nearest.
std::string unknown_option_text(std::span<const OptionSpec> specs, std::string_view name,
                                std::string_view label);

/// The help text: usage, summary, then the options by group with type, unit, default and range.
std::string help_text(const CommandInfo& command, std::span<const OptionSpec> specs);

/// The answer to `--help TOPIC`: without a topic, the basic options, or all of a table that marks none; with
/// "all", all of them; with an option's name, that option. Throws ConfigError, suggesting the nearest, for
/// another name.
std::string help_on(const CommandInfo& command, std::span<const OptionSpec> specs,
                    const std::optional<std::string>& topic);

/// The help text as Markdown, one table per group.
std::string markdown_text(const CommandInfo& command, std::span<const OptionSpec> specs);

/// Every option with its values, as a YAML file that reads back as the same options; values that differ from
/// the default are marked "# default: ...", unset options are comments.
std::string print_back_text(std::span<const OptionSpec> specs,
                            std::span<const std::vector<std::string>> values);

}  // namespace braid::config
