#include "braid/schedule/generators/generate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/generators/auto_schedule.h"
#include "braid/schedule/generators/building_blocks.h"
#include "braid/schedule/generators/dual_pipe_v.h"
#include "braid/schedule/generators/eager_one_f_one_b.h"
#include "braid/schedule/generators/f_then_b.h"
#include "braid/schedule/generators/interleaved_zb.h"
#include "braid/schedule/generators/one_f_one_b.h"
#include "braid/schedule/generators/vpp.h"
#include "braid/schedule/generators/zb_h1.h"
#include "braid/schedule/generators/zb_h1_fused.h"
#include "braid/schedule/generators/zb_h2.h"
#include "braid/schedule/generators/zb_v.h"

namespace braid::schedule {
namespace {

// A generator that looks at the shape alone.
template <Schedule (*kGenerate)(const PipelineShape&)>
Schedule fixed_order(const PipelineShape& shape, const Workload&) {
  return kGenerate(shape);
}

constexpr std::array kModes = {
    Mode{"FThenB", "all forwards, then all backwards", {}, fixed_order<f_then_b>},
    Mode{"1F1B", "one forward, one backward", 1, fixed_order<one_f_one_b>},
    Mode{"Eager1F1B", "1F1B with forwards in hand, to hide messages", 1, fixed_order<eager_one_f_one_b>},
    Mode{"VPP", "1F1B over several chunks per rank", {}, fixed_order<vpp>},
    Mode{"ZBH1", "1F1B with weight gradients put off, in the same memory", 1, fixed_order<zb_h1>},
    Mode{"ZBH1-fused", "ZBH1 with few split backwards", 1, fixed_order<zb_h1_fused>},
    Mode{"ZBH2", "ZBH1 with hardly any bubble, in twice the memory", 1, fixed_order<zb_h2>},
    Mode{"InterleavedZB", "ZBH1 over several chunks per rank", {}, fixed_order<interleaved_zb>},
    Mode{"DualPipeV", "two chunks per rank in a V, forwards beside backwards", 2, fixed_order<dual_pipe_v>},
    Mode{"ZBVPP", "two chunks per rank in a V, arranged for the times within the memory limit", 2, zbvpp,
         true},
    Mode{"V-Half", "the same with about half of 1F1B's memory", 2, v_half, true},
    Mode{"V-Min", "the same with about a third of 1F1B's memory", 2, v_min, true},
    Mode{"auto", "the best of all, fitted to times and memory", {}, auto_schedule, true},
};

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

std::string mode_names() {
  std::string text;
  for (const Mode& mode : kModes) text += (text.empty() ? "" : ", ") + std::string(mode.name);
  return text;
}

const Mode& mode_of(std::string_view name) {
  if (name == "Eager-1F1B") return mode_of("Eager1F1B");  // PaddleNLP's spelling
  for (const Mode& known : kModes) {
    if (known.name == name) return known;
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
