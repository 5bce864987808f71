#include "braid/schedule/generators/generate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/generators/alternation.h"
#include "braid/schedule/generators/auto_schedule.h"
#include "braid/schedule/generators/building_blocks.h"
#include "braid/schedule/generators/dual_pipe_v.h"
#include "braid/schedule/generators/zb_v.h"

namespace braid::schedule {
namespace {

std::vector<Mode> make_modes() {
  std::vector<Mode> modes;
  for (const AlternatingSchedule& row : alternating_schedules()) {
    const std::optional<int32_t> chunks = row.for_more_chunks.empty() ? std::nullopt : std::optional(1);
    modes.push_back({row.name, row.summary, chunks, [&row](const PipelineShape& shape, const Workload&) {
                       return alternating(row, shape);
                     }});
  }
  const auto dual = [](const PipelineShape& shape, const Workload&) { return dual_pipe_v(shape); };
  modes.push_back({"DualPipeV", "two chunks per rank in a V, forwards beside backwards", 2, dual});
  modes.push_back({"ZBVPP", "two chunks per rank in a V, arranged for the times within the memory limit", 2,
                   zbvpp, true});
  modes.push_back({"V-Half", "the same with about half of 1F1B's memory", 2, v_half, true});
  modes.push_back({"V-Min", "the same with about a third of 1F1B's memory", 2, v_min, true});
  modes.push_back({"auto", "the best of all, fitted to times and memory", {}, auto_schedule, true});
  return modes;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

// What is left of a name without dashes, spaces and letter case.
std::string letters(std::string_view name) {
  std::string result = lower(name);
  std::erase_if(result, [](char c) { return c == '-' || c == '_' || c == ' '; });
  return result;
}

// Names in PyTorch (classes, with Schedule in front), Megatron, PaddleNLP and papers, as `letters` leaves
// them.
constexpr std::array<std::array<std::string_view, 2>, 17> kOtherNames = {{
    {"gpipe", "FThenB"},
    {"afab", "FThenB"},
    {"allforwardallbackward", "FThenB"},
    {"filldrain", "FThenB"},
    {"pipedreamflush", "1F1B"},
    {"onef1b", "1F1B"},
    {"oneforwardonebackward", "1F1B"},
    {"interleaved1f1b", "VPP"},
    {"1f1binterleaved", "VPP"},
    {"interleaved", "VPP"},
    {"zb1p", "ZBH1"},
    {"zb2p", "ZBH2"},
    {"interleavedzerobubble", "InterleavedZB"},
    {"interleavedzbh1", "InterleavedZB"},
    {"zbv", "ZBVPP"},
    {"zbvzerobubble", "ZBVPP"},
    {"dualpipevzerobubble", "DualPipeV"},
}};

// The mode that `wrong` was probably meant to be; case does not count.
std::optional<std::string_view> suggestion(std::string_view wrong) {
  std::vector<std::string> known;
  for (const Mode& mode : modes()) known.push_back(lower(mode.name));
  const std::optional<std::string> found = nearest(lower(wrong), known);
  if (!found) return std::nullopt;
  for (const Mode& mode : modes()) {
    if (lower(mode.name) == *found) return mode.name;
  }
  return std::nullopt;
}

}  // namespace

std::span<const Mode> modes() {
  static const std::vector<Mode> all = make_modes();
  return all;
}

std::vector<std::string> schedule_modes() {
  std::vector<std::string> result;
  for (const Mode& mode : modes()) result.emplace_back(mode.name);
  return result;
}

std::string own_name(std::string_view name) {
  std::string plain = letters(name);
  constexpr std::string_view kPrefix = "schedule";
  if (plain.starts_with(kPrefix)) plain.erase(0, kPrefix.size());
  for (const Mode& mode : modes()) {
    if (letters(mode.name) == plain) return std::string(mode.name);
  }
  for (const auto& [other, own] : kOtherNames) {
    if (plain == other) return std::string(own);
  }
  return std::string(name);
}

std::string mode_names() {
  std::string text;
  for (const Mode& mode : modes()) text += (text.empty() ? "" : ", ") + std::string(mode.name);
  return text;
}

const Mode& mode_of(std::string_view name) {
  const std::string own = own_name(name);
  for (const Mode& known : modes()) {
    if (known.name == own) return known;
  }
  const std::optional<std::string_view> meant = suggestion(name);
  if (meant) {
    throw ConfigError(cat("there is no pipeline schedule mode \"", name, "\": did you mean ", *meant, "?"));
  }
  throw ConfigError(cat("there is no pipeline schedule mode \"", name, "\": choose one of ", mode_names()));
}

Schedule generate(std::string_view mode, const PipelineShape& shape, const Workload& workload) {
  const Mode& known = mode_of(mode);
  validate(shape);
  Schedule schedule = known.generate(shape, workload);
  if (workload.memory_limit) require_within(schedule, workload.memory, *workload.memory_limit);
  return schedule;
}

}  // namespace braid::schedule
