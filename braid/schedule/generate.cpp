#include "braid/schedule/generate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/f_then_b.h"
#include "braid/schedule/one_f_one_b.h"

namespace braid::schedule {
namespace {

struct Mode {
  std::string_view name;
  Schedule (*generate)(const PipelineShape&);
};

constexpr std::array kModes = {
    Mode{"FThenB", f_then_b},
    Mode{"1F1B", one_f_one_b},
};

// Names that users know from other trainers. They deserve a better answer than "unknown".
constexpr std::array<std::string_view, 4> kModesElsewhere = {"Eager1F1B", "VPP", "ZBH1", "ZBVPP"};

std::string names(std::string_view between) {
  std::string text;
  for (const Mode& mode : kModes) text += (text.empty() ? "" : std::string(between)) + std::string(mode.name);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

// The mode that `wrong` was probably meant to be; case does not count.
std::optional<std::string_view> suggestion(std::string_view wrong) {
  std::vector<std::string> known;
  for (const Mode& mode : kModes) known.push_back(lower(mode.name));
  const std::optional<std::string> found = nearest(lower(wrong), known);
  if (!found) return std::nullopt;
  for (const Mode& mode : kModes) {
    if (lower(mode.name) == *found) return mode.name;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> schedule_modes() {
  std::vector<std::string> result;
  for (const Mode& mode : kModes) result.emplace_back(mode.name);
  return result;
}

Schedule generate(std::string_view mode, const PipelineShape& shape) {
  for (const Mode& known : kModes) {
    if (known.name == mode) return known.generate(shape);
  }
  const bool is_elsewhere =
      std::find(kModesElsewhere.begin(), kModesElsewhere.end(), mode) != kModesElsewhere.end();
  require<ConfigError>(!is_elsewhere, "pipeline schedule mode \"", mode,
                       "\" is known, but this version runs ", names(" and "), " only");
  const std::optional<std::string_view> meant = suggestion(mode);
  if (meant) {
    throw ConfigError(cat("there is no pipeline schedule mode \"", mode, "\": did you mean ", *meant, "?"));
  }
  throw ConfigError(cat("there is no pipeline schedule mode \"", mode, "\": choose one of ", names(", ")));
}

}  // namespace braid::schedule
