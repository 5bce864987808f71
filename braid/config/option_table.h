// One table of a command's options, the source of parsing, help, print-back, validation and documentation.
//
//   struct ServeOptions {
//     int64_t port = 29500;
//     std::optional<std::string> log_dir;      // unset unless given
//     std::vector<std::string> input;          // --input a b c
//   };
//
//   OptionTable<ServeOptions> serve_table() {
//     OptionTable<ServeOptions> table({.command = "braid serve", .summary = "Serves."});
//     table.group("Network");
//     table.add("port", &ServeOptions::port, {.help = "Port to listen on.", .range = {.at_least = 1}});
//     ...
//     return table;
//   }
//
//   const OptionTable<ServeOptions> table = serve_table();
//   ServeOptions options;
//   const ParsedArguments parsed = parse_arguments(arguments, table.specs());
//   const std::vector<NoEffect> unused = table.apply(options, parsed.assignments);
//
// Field types: bool, integers, std::chrono::seconds, double, std::string, and std::optional or std::vector of
// these.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/config/error_list.h"
#include "braid/config/option_arguments.h"
#include "braid/config/option_spec.h"
#include "braid/config/option_value.h"

namespace braid::config {

template <typename Options>
class OptionTable {
 public:
  explicit OptionTable(CommandInfo command) : command_(std::move(command)) {}

  /// Sets the group of the options added from here on.
  void group(std::string name) { group_ = std::move(name); }

  /// Declares the option `name`, stored in `field`. Throws InternalError if the name is taken.
  template <typename Value>
  void add(const std::string& name, Value Options::*field, const OptionInfo& info) {
    for (const std::string& known : info.aliases) {
      require<InternalError>(find_option(specs_, known) == nullptr, "option ", known, " is declared twice");
    }
    require<InternalError>(find_option(specs_, name) == nullptr, "option ", name, " is declared twice");
    OptionSpec spec{.name = name,
                    .group = group_,
                    .kind = kind_of<Value>(),
                    .is_list = detail::kIsList<Value>,
                    .info = info};
    Access access{.set = [field](Options& options,
                                 const std::vector<std::string>& values) { assign(options.*field, values); },
                  .get = [field](const Options& options) { return texts(options.*field); }};
    spec.default_values = access.get(Options{});
    specs_.push_back(std::move(spec));
    accesses_.push_back(std::move(access));
  }

  const CommandInfo& command() const { return command_; }
  std::span<const OptionSpec> specs() const& { return specs_; }
  std::span<const OptionSpec> specs() const&& = delete;  // the span would outlive the table

  /// Sets the fields, in order: the last assignment of an option takes precedence, so a file goes before the
  /// flags. Returns the given options without effect. Throws ConfigError for unknown names and
  /// for values that are not allowed or not supported, all of them at once; the fields whose assignments are
  /// right are set even then.
  std::vector<NoEffect> apply(Options& options, std::span<const Assignment> assignments) const {
    ErrorList errors;
    std::vector<NoEffect> unused = apply(options, assignments, errors);
    errors.throw_if_any();
    return unused;
  }

  /// The same, with the errors added to `errors` in place of thrown.
  std::vector<NoEffect> apply(Options& options, std::span<const Assignment> assignments,
                              ErrorList& errors) const {
    std::vector<NoEffect> unused;
    for (size_t i = 0; i < assignments.size(); ++i) {
      errors.attempt([&] { apply_one(options, assignments, i, unused); });
    }
    return unused;
  }

  /// Every option's values as text, in the order of specs(); empty where unset.
  std::vector<std::vector<std::string>> values(const Options& options) const {
    std::vector<std::vector<std::string>> all;
    for (const Access& access : accesses_) all.push_back(access.get(options));
    return all;
  }

  /// Throws ConfigError if fields hold values that their flags would reject, for all of them at once.
  void check(const Options& options) const {
    ErrorList errors;
    for (size_t i = 0; i < specs_.size(); ++i) {
      const std::vector<std::string> values = accesses_[i].get(options);
      // A default may mean "required" and lie outside the range; the command checks that.
      if (values == specs_[i].default_values) continue;
      for (const std::string& value : values) {
        errors.attempt([&] { checked_value(specs_[i], value, "--" + specs_[i].name); });
      }
    }
    errors.throw_if_any();
  }

  std::string help() const { return help_text(command_, specs_); }
  /// See help_on.
  std::string help(const std::optional<std::string>& topic) const { return help_on(command_, specs_, topic); }
  std::string markdown() const { return markdown_text(command_, specs_); }
  std::string print_back(const Options& options) const { return print_back_text(specs_, values(options)); }

 private:
  struct Access {
    std::function<void(Options&, const std::vector<std::string>&)> set;
    std::function<std::vector<std::string>(const Options&)> get;
  };

  void apply_one(Options& options, std::span<const Assignment> assignments, size_t i,
                 std::vector<NoEffect>& unused) const {
    const Assignment& given = assignments[i];
    const size_t at = index_of(given.name, given.label);
    const OptionSpec& spec = specs_[at];
    require<ConfigError>(spec.is_list || given.values.size() == 1, given.label, " takes one value, ",
                         allowed_text(spec), "; got ", given.values.size());
    std::vector<std::string> values;
    for (const std::string& value : given.values) values.push_back(checked_value(spec, value, given.label));
    accesses_[at].set(options, values);
    bool is_last = true;
    for (const Assignment& later : assignments.subspan(i + 1)) {
      is_last = is_last && find_option(specs_, later.name) != &spec;
    }
    if (is_last && !spec.info.no_effect.empty()) {
      unused.push_back({.label = cat(given.label, " ", given.values.empty() ? "" : given.values.front()),
                        .reason = spec.info.no_effect});
    }
  }

  // Values have passed checked_value, so the only failure left is a number too large for its field.
  template <typename Value>
  static Value read_checked(const std::string& text) {
    const auto value = read_value<Value>(text);
    require<ConfigError>(value.has_value(), "the number ", text, " is too large");
    return *value;
  }

  template <typename Value>
  static void assign(Value& field, const std::vector<std::string>& values) {
    using Scalar = typename detail::Scalar<Value>::type;
    if constexpr (detail::kIsList<Value>) {
      field.clear();
      for (const std::string& value : values) field.push_back(read_checked<Scalar>(value));
    } else {
      field = read_checked<Scalar>(values.front());
    }
  }

  template <typename Value>
  static std::vector<std::string> texts(const Value& field) {
    std::vector<std::string> all;
    if constexpr (detail::kIsList<Value>) {
      for (const auto& value : field) all.push_back(write_value(value));
    } else if constexpr (detail::kIsOptional<Value>) {
      if (field) all.push_back(write_value(*field));
    } else {
      all.push_back(write_value(field));
    }
    return all;
  }

  size_t index_of(std::string_view name, std::string_view label) const {
    const OptionSpec* spec = find_option(specs_, name);
    if (spec == nullptr) throw ConfigError(unknown_option_text(specs_, name, label));
    return static_cast<size_t>(spec - specs_.data());
  }

  CommandInfo command_;
  std::string group_;
  std::vector<OptionSpec> specs_;
  std::vector<Access> accesses_;
};

}  // namespace braid::config
