#include "braid/config/pretrain_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/option_file.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

// Placeholders that convert to one family of types each. A placeholder for every type would be ambiguous for
// classes with templated constructors.
struct AnyNumber {
  template <typename T>
  requires std::is_arithmetic_v<T>
  operator T() const;
};
struct AnyText {
  operator std::string() const;
};
struct AnySeconds {
  operator std::chrono::seconds() const;
};
struct AnyOptional {
  template <typename T>
  operator std::optional<T>() const;
};
struct AnyList {
  template <typename T>
  operator std::vector<T>() const;
};

// The number of fields of an aggregate: initialisers are appended one at a time until none fits.
template <typename T, typename... Fields>
constexpr size_t field_count() {
  if constexpr (requires { T{std::declval<Fields>()..., std::declval<AnyNumber>()}; }) {
    return field_count<T, Fields..., AnyNumber>();
  } else if constexpr (requires { T{std::declval<Fields>()..., std::declval<AnyText>()}; }) {
    return field_count<T, Fields..., AnyText>();
  } else if constexpr (requires { T{std::declval<Fields>()..., std::declval<AnySeconds>()}; }) {
    return field_count<T, Fields..., AnySeconds>();
  } else if constexpr (requires { T{std::declval<Fields>()..., std::declval<AnyOptional>()}; }) {
    return field_count<T, Fields..., AnyOptional>();
  } else if constexpr (requires { T{std::declval<Fields>()..., std::declval<AnyList>()}; }) {
    return field_count<T, Fields..., AnyList>();
  } else {
    return sizeof...(Fields);
  }
}

TEST(PretrainTable, EveryFieldHasAnOption) {
  const auto table = pretrain_table();
  EXPECT_EQ(field_count<PretrainOptions>(), table.specs().size());
}

// A value that the option accepts and that is not its default, or nothing if there is none.
std::optional<std::string> other_value(const OptionSpec& spec) {
  const std::string standard = spec.default_values.empty() ? "" : spec.default_values.front();
  std::vector<std::string> candidates = spec.info.supported;
  if (spec.info.missing.empty()) {
    candidates = spec.info.choices;
    if (spec.kind == OptionKind::kSwitch) candidates = {"true", "false"};
    if (spec.kind == OptionKind::kInteger) candidates = {"2", "4"};
    if (spec.kind == OptionKind::kReal) candidates = {"0.125", "1.5"};
    if (spec.kind == OptionKind::kText && candidates.empty()) candidates = {"some: text, \"quoted\" #1\n\\"};
  }
  for (const std::string& candidate : candidates) {
    const bool is_number = spec.kind == OptionKind::kInteger || spec.kind == OptionKind::kReal;
    if (candidate != standard && (!is_number || contains(spec.info.range, *parse_double(candidate))))
      return candidate;
  }
  return std::nullopt;
}

TEST(PretrainTable, EveryOptionSetsItsOwnFieldAndReadsBackAsWritten) {
  const auto table = pretrain_table();
  const auto defaults = table.values({});
  for (size_t i = 0; i < defaults.size(); ++i) {
    const OptionSpec& spec = table.specs()[i];
    SCOPED_TRACE(spec.name);
    const auto value = other_value(spec);
    if (!value) {
      EXPECT_FALSE(spec.info.missing.empty()) << "only unsupported options may have no other value";
      continue;
    }
    PretrainOptions options;
    table.apply(options,
                parse_arguments(std::vector<std::string>{"--" + spec.name + "=" + *value}, table.specs())
                    .assignments);
    EXPECT_NO_THROW(table.check(options));
    auto expected = defaults;
    expected[i] = {*value};
    EXPECT_EQ(table.values(options), expected);
  }
}

TEST(PretrainTable, PrintBackReadsBackAsTheSameOptions) {
  if (!has_yaml()) {
    EXPECT_THROW(parse_yaml_value("", "x"), ConfigError);
    return;
  }
  const auto table = pretrain_table();
  std::vector<Assignment> given;
  for (const OptionSpec& spec : table.specs()) {
    if (const auto value = other_value(spec)) given.push_back({spec.name, {*value}, spec.name});
  }
  PretrainOptions options;
  table.apply(options, given);
  PretrainOptions read;
  table.apply(read, options_of(parse_yaml_value(table.print_back(options), "printed")));
  EXPECT_EQ(read, options);
  EXPECT_NE(read, PretrainOptions{});
}

// Values just outside the allowed ones.
std::vector<std::string> bad_values(const OptionSpec& spec) {
  std::vector<std::string> bad;
  const Range& range = spec.info.range;
  const bool whole = spec.kind == OptionKind::kInteger;
  if (range.at_least) bad.push_back(to_text(whole ? *range.at_least - 1 : *range.at_least - 0.5));
  if (range.above) bad.push_back(to_text(*range.above));
  if (range.below) bad.push_back(to_text(*range.below));
  if (range.at_most) bad.push_back(fixed(*range.at_most + 1, 0));
  if (spec.kind == OptionKind::kSwitch) bad.push_back("maybe");
  if (whole) bad.insert(bad.end(), {"1.5", "x", "99999999999999999999"});
  if (spec.kind == OptionKind::kReal) bad.insert(bad.end(), {"x", "nan", "inf", "1e999"});
  if (!spec.info.choices.empty()) bad.insert(bad.end(), {"zzz"});
  return bad;
}

std::string error_of(const std::string& name, const std::string& value) {
  const auto table = pretrain_table();
  PretrainOptions options;
  try {
    table.apply(options, std::vector<Assignment>{{name, {value}, "--" + name}});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted: " + name + " " + value;
}

TEST(PretrainTable, EveryRangeAndChoiceRejects) {
  const auto table = pretrain_table();
  for (const OptionSpec& spec : table.specs()) {
    for (const std::string& value : bad_values(spec)) {
      EXPECT_THAT(error_of(spec.name, value),
                  HasSubstr("--" + spec.name + " must be " + allowed_text(spec) + ", got '" + value + "'"));
    }
  }
}

TEST(PretrainTable, UnsupportedValuesAreRejectedWithTheReason) {
  size_t rejected = 0;
  const auto table = pretrain_table();
  for (const OptionSpec& spec : table.specs()) {
    if (spec.info.missing.empty()) continue;
    std::vector<std::string> values = spec.info.choices;
    if (spec.kind == OptionKind::kSwitch) values = {"true", "false"};
    if (spec.kind == OptionKind::kInteger) values = {"2"};
    if (spec.kind == OptionKind::kText && values.empty()) values = {"anything"};
    for (const std::string& value : values) {
      const std::string message = error_of(spec.name, value);
      if (std::find(spec.info.supported.begin(), spec.info.supported.end(), value) !=
          spec.info.supported.end()) {
        EXPECT_THAT(message, HasSubstr("accepted"));
      } else {
        EXPECT_THAT(message, HasSubstr(": this version of braid does not support " + spec.info.missing));
        ++rejected;
      }
    }
  }
  EXPECT_GE(rejected, 17U);
}

TEST(PretrainTable, EveryOptionIsExplained) {
  std::set<std::string> names;
  const auto table = pretrain_table();
  for (const OptionSpec& spec : table.specs()) {
    SCOPED_TRACE(spec.name);
    EXPECT_TRUE(names.insert(spec.name).second);
    EXPECT_FALSE(spec.group.empty());
    EXPECT_TRUE(spec.info.help.ends_with('.'));
    EXPECT_FALSE(spec.info.no_effect.ends_with('.'));
    EXPECT_EQ(spec.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos);
  }
}

TEST(PretrainTable, HelpShowsTypeUnitDefaultAndRange) {
  const std::string help = pretrain_table().help();
  EXPECT_THAT(help, HasSubstr("Usage: braid pretrain [FILE] [--flag value | --flag=value]...\n"));
  EXPECT_THAT(help, HasSubstr("\nBatch\n"
                              "  --per_device_train_batch_size <int> samples  [default: 8; >= 1]\n"
                              "      Samples per microbatch.\n"));
  EXPECT_THAT(help, HasSubstr("  --context_parallel_degree <int>  [default: -1; supported: -1 or 1]\n"));
  EXPECT_THAT(help, HasSubstr("  --optim <adamw>  [default: adamw]\n")) << "what is rejected is not offered";
  EXPECT_THAT(help, HasSubstr("  --sharding <string>\n      [default: ''; one of '', true, stage0, stage1,"));
  for (const std::string& line : split(help, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST(PretrainTable, TheShortHelpHasTheOptionsThatMatterFirst) {
  const auto table = pretrain_table();
  int64_t basic = 0;
  for (const OptionSpec& spec : table.specs()) basic += spec.info.is_basic ? 1 : 0;
  EXPECT_GE(basic, 20);
  EXPECT_LE(basic, 25);
  EXPECT_THAT(pretrain_help(std::nullopt), HasSubstr("--help all lists the others"));
  EXPECT_THAT(pretrain_help("all"), HasSubstr("--distributed_dataloader"));
  EXPECT_THAT(pretrain_help("learning-rate"), testing::StartsWith("  --learning_rate <float>"));
}

TEST(PretrainTable, MarkdownHasARowForEachOption) {
  const std::string text = options_markdown();
  const auto table = pretrain_table();
  for (const OptionSpec& spec : table.specs()) {
    EXPECT_THAT(text, HasSubstr("\n| `--" + spec.name + "` | "));
  }
}

}  // namespace
}  // namespace braid::config
