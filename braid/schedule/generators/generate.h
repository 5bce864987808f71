// The schedules by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// A kind of schedule that generate knows.
struct Mode {
  std::string_view name;
  std::string_view summary;  ///< one line, for help texts
  /// The only number of chunks per rank that it runs with, or nothing if any will do.
  std::optional<int32_t> chunks{};
  std::function<Schedule(const PipelineShape& shape, const Workload& workload)> generate{};
  bool arranges_for_times = false;  ///< the order depends on the workload's times; runs with every shape
};

/// All of them, the simplest first.
std::span<const Mode> modes();

/// Their names.
std::vector<std::string> schedule_modes();

/// Their names, separated by ", ".
std::string mode_names();

/// braid's name of the schedule that PyTorch, Megatron, PaddleNLP or a paper call `name`, in any letter case
/// and with or without dashes: "FThenB" for "GPipe", "VPP" for "Interleaved1F1B"; `name` itself if it is none
/// of these.
std::string own_name(std::string_view name);

/// The one called `name`, or by another name that own_name knows. Throws ConfigError if there is none; the
/// message suggests the nearest.
const Mode& mode_of(std::string_view name);

/// The schedule called `mode`, compute actions only. A pure function: every rank that calls it with the same
/// arguments gets the same schedule.
/// Throws ConfigError if there is none of that name (the message suggests the nearest), if `shape` does not
/// suit it, or if it would keep more than workload.memory_limit on a rank (the message says how much).
Schedule generate(std::string_view mode, const PipelineShape& shape, const Workload& workload = {});

}  // namespace braid::schedule
