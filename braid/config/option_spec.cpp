#include "braid/config/option_spec.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/option_value.h"

namespace braid::config {
namespace {

std::string joined(const std::vector<std::string>& texts, std::string_view between, std::string_view last) {
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) all += i + 1 == texts.size() ? last : between;
    all += texts[i].empty() ? "''" : texts[i];
  }
  return all;
}

[[noreturn]] void throw_unsupported(const OptionSpec& spec, const std::string& value,
                                    std::string_view label) {
  const std::string remedy =
      spec.info.supported.empty() ? "omit it" : "use " + joined(spec.info.supported, ", ", " or ");
  throw ConfigError(
      cat(label, " ", value, ": this version of braid does not support ", spec.info.missing, "; ", remedy));
}

// 1000000 is more readable than 1e+06.
std::string number_text(double number) {
  return number == std::floor(number) && std::fabs(number) < 1e15 ? fixed(number, 0) : to_text(number);
}

bool is_member(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

}  // namespace

bool contains(const Range& range, double number) {
  if (range.also && number == *range.also) return true;
  return (!range.at_least || number >= *range.at_least) && (!range.above || number > *range.above) &&
         (!range.below || number < *range.below) && (!range.at_most || number <= *range.at_most);
}

std::string range_text(const Range& range) {
  std::vector<std::string> bounds;
  if (range.at_least) bounds.push_back(">= " + number_text(*range.at_least));
  if (range.above) bounds.push_back("> " + number_text(*range.above));
  if (range.below) bounds.push_back("< " + number_text(*range.below));
  if (range.at_most) bounds.push_back("<= " + number_text(*range.at_most));
  const std::string text = joined(bounds, " and ", " and ");
  return range.also ? number_text(*range.also) + " or " + text : text;
}

const OptionSpec* find_option(std::span<const OptionSpec> specs, std::string_view name) {
  std::string plain(name);
  for (const OptionSpec& spec : specs) {
    if (spec.name == plain || is_member(spec.info.aliases, plain)) return &spec;
  }
  std::replace(plain.begin(), plain.end(), '-', '_');
  return plain == name ? nullptr : find_option(specs, plain);
}

std::vector<std::string> notes_of(std::span<const NoEffect> all) {
  std::vector<std::string> notes;
  for (const NoEffect& one : all) notes.push_back(cat(one.label, " has no effect: ", one.reason));
  return notes;
}

std::string allowed_text(const OptionSpec& spec) {
  // Values that would be rejected are not offered.
  if (!spec.info.supported.empty() && !spec.info.missing.empty()) {
    return (spec.info.supported.size() == 1 ? "" : "one of ") + joined(spec.info.supported, ", ", ", ");
  }
  if (!spec.info.choices.empty()) return "one of " + joined(spec.info.choices, ", ", ", ");
  static constexpr std::array<const char*, 4> kKinds = {"true or false", "a whole number", "a number",
                                                        "a string"};
  std::string text = kKinds[static_cast<size_t>(spec.kind)];
  if (const std::string range = range_text(spec.info.range); !range.empty()) text += ", " + range;
  return text;
}

std::string checked_value(const OptionSpec& spec, const std::string& value, std::string_view label) {
  std::optional<double> number;
  std::optional<std::string> text;
  if (spec.kind == OptionKind::kSwitch) {
    if (const auto parsed = read_value<bool>(value)) text = write_value(*parsed);
  } else if (spec.kind == OptionKind::kInteger) {
    if (const auto parsed = read_value<int64_t>(value)) {
      text = write_value(*parsed);
      number = static_cast<double>(*parsed);
    }
  } else if (spec.kind == OptionKind::kReal) {
    number = read_value<double>(value);
    if (number) text = write_value(*number);
  } else {
    text = spec.info.spelling ? spec.info.spelling(value) : value;
  }
  if (number && !contains(spec.info.range, *number)) text.reset();
  if (text && !spec.info.choices.empty() && !is_member(spec.info.choices, *text)) text.reset();
  if (!text) {
    const auto close = nearest(value, spec.info.supported.empty() ? spec.info.choices : spec.info.supported);
    throw ConfigError(cat(label, " must be ", allowed_text(spec), ", got '", value, "'",
                          close && !close->empty() ? cat("; did you mean ", *close, "?") : ""));
  }
  if (!spec.info.missing.empty() && !is_member(spec.info.supported, *text)) {
    throw_unsupported(spec, value, label);
  }
  return *text;
}

std::string unknown_option_text(std::span<const OptionSpec> specs, std::string_view name,
                                std::string_view label) {
  // Letter case and dashes are the most common slips, and would count as many edits.
  std::string plain(name);
  for (char& c : plain) {
    if (c == '-') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  std::vector<std::string> names = {"help"};
  for (const OptionSpec& spec : specs) {
    if (is_member(spec.info.known_as, plain)) {
      return cat(label, ": there is no such option; it is called ", spec.name, " here");
    }
    names.push_back(spec.name);
    names.insert(names.end(), spec.info.aliases.begin(), spec.info.aliases.end());
  }
  const auto close = nearest(plain, names);
  return cat(label, ": there is no such option",
             close ? cat("; did you mean ", *close, "?") : "; --help lists them");
}

}  // namespace braid::config
