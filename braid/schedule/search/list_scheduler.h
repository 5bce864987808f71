// A list scheduler for V-shaped schedules: whenever a rank is free it takes the most preferred action that
// can run, and fills waits with weight gradients.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "braid/schedule/action.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// The four kinds of action whose order is to be settled; a microbatch runs through a rank of a V in this
/// order. Weight gradients follow input gradients first in, first out.
enum VKind : uint8_t { kForward0, kForward1, kBackward1, kBackward0 };
inline constexpr size_t kVKinds = 4;

/// What the chunks of one rank take and keep.
struct VRank {
  std::array<int64_t, kVKinds> ticks{};
  // Per chunk:
  std::array<int64_t, 2> weight_ticks{};
  std::array<int64_t, 2> forward_to_backward{};
  std::array<int64_t, 2> backward_to_weight{};
};

/// A V with 2 chunks per rank that is to be scheduled. Times are whole numbers of ticks, so that sums of
/// equal times are equal and no choice hangs on rounding.
struct VProblem {
  int32_t microbatches = 1;
  int64_t communication_ticks = 0;
  int64_t memory_limit = 0;  ///< of every rank, in the unit of what a rank keeps
  std::vector<VRank> ranks;
};

/// The problem of `shape` and `workload` with this limit; 2^20 ticks are the longest of the workload's times.
/// Throws ConfigError if durations or memory do not suit the shape.
VProblem v_problem(const PipelineShape& shape, const Workload& workload, int64_t memory_limit);

/// The most that `rank` keeps if it ends every microbatch before it begins the next. No V keeps less, and
/// with this limit list_schedule still comes to an end.
int64_t least_memory(const VRank& rank);

/// How a free rank chooses among the actions that can start.
struct ListRules {
  /// Each kind's slot of microbatch 0, per rank or one element for all ranks; the lowest slot goes first.
  std::vector<std::array<int32_t, kVKinds>> slots = {{}};
  /// The increase of slots from one microbatch to the next.
  int32_t period = 0;
  /// Per rank and chunk, the most microbatches between F and I, at least 1; empty if any number may be.
  std::vector<std::array<int32_t, 2>> most_in_flight{};
};

/// Whether a W runs even if it ends only after the next forward or input gradient could have started.
struct FillRules {
  bool before_forward = false;
  bool before_backward = false;
};

/// An order of all F, I and W, per rank.
struct ListOrder {
  std::vector<std::vector<Action>> ranks;
  /// The longest rank's time from its first action to the end of its last one.
  int64_t longest_span_ticks = 0;
};

/// The order that the rules lead to. An action that lacks only memory has a W make room for it. Where `fill`
/// leaves a wait open that is too short for a W, one runs all the same if waiting would make the rank's
/// bubble the highest of all. The order is made again, each rank free to wait as long as it did the last
/// time, while that shortens it. Not checked: no rank's least_memory is above the limit. Source: Qi et al.
/// 2023, arXiv:2401.10241, section 3.1 (the greedy search) and its use for ZB-V.
ListOrder list_schedule(const VProblem& problem, const ListRules& rules, FillRules fill);

/// The same with F and I of each rank in the order that they have in `ranks`, whose W are ignored: only where
/// W go is decided. Nothing if that order cannot keep to the memory limit.
std::optional<ListOrder> fill_weights(const VProblem& problem, const std::vector<std::vector<Action>>& ranks,
                                      FillRules fill);

}  // namespace braid::schedule
