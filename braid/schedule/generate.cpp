#include "braid/schedule/generate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/auto_schedule.h"
#include "braid/schedule/f_then_b.h"
#include "braid/schedule/one_f_one_b.h"

namespace braid::schedule {
namespace {

// A generator that looks at the shape alone.
template <Schedule (*kGenerate)(const PipelineShape&)>
Schedule fixed_order(const PipelineShape& shape, const Workload&) {
  return kGenerate(shape);
}

constexpr std::array kModes = {
    Mode{"FThenB", "all forwards, then all backwards", 1, fixed_order<f_then_b>},
    Mode{"1F1B", "one forward, one backward", 1, fixed_order<one_f_one_b>},
    Mode{"auto", "the best of all, fitted to times and memory", {}, auto_schedule},
};

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

std::span<const Mode> modes() { return kModes; }

std::vector<std::string> schedule_modes() {
  std::vector<std::string> result;
  for (const Mode& mode : kModes) result.emplace_back(mode.name);
  return result;
}

const Mode& mode_of(std::string_view name) {
  for (const Mode& known : kModes) {
    if (known.name == name) return known;
  }
  const std::optional<std::string_view> meant = suggestion(name);
  if (meant) {
    throw ConfigError(cat("there is no pipeline schedule mode \"", name, "\": did you mean ", *meant, "?"));
  }
  throw ConfigError(cat("there is no pipeline schedule mode \"", name, "\": choose one of ", names(", ")));
}

Schedule generate(std::string_view mode, const PipelineShape& shape, const Workload& workload) {
  const Mode& known = mode_of(mode);
  validate(shape);
  require<ConfigError>(!known.chunks || *known.chunks == shape.chunks_per_rank, mode, " runs with ",
                       known.chunks.value_or(0), *known.chunks == 1 ? " chunk" : " chunks", " per rank, got ",
                       shape.chunks_per_rank);
  Schedule schedule = known.generate(shape, workload);
  if (workload.memory_limit) {
    const std::vector<int64_t> peaks = peak_memory(schedule, workload.memory);
    const auto highest = std::max_element(peaks.begin(), peaks.end());
    require<ConfigError>(*highest <= *workload.memory_limit, mode, " keeps ", *highest, " on rank ",
                         highest - peaks.begin(), ", more than the limit of ", *workload.memory_limit,
                         ": raise the limit, or take a schedule that keeps less (V-Half, V-Min, auto)");
  }
  return schedule;
}

}  // namespace braid::schedule
