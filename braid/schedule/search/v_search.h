// The search that the V-shaped generators share: many list schedules, of which the shortest is taken.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "braid/schedule/search/list_scheduler.h"

namespace braid::schedule {

/// Limits for ListRules::most_in_flight that use up the memory limit evenly. A microbatch's way through chunk
/// 0 and back is longest on rank 0, through chunk 1 on the last rank: with room for k on both chunks
/// together, rank 0 gets k-1 on chunk 0 and 1 on chunk 1, the last rank about k/2 on both, and those between
/// lie on the line.
std::vector<std::array<int32_t, 2>> tapered_limits(const VProblem& problem);

/// Rules under `most_in_flight`, one for each fixed order of preference among the kinds that is worth a try.
std::vector<ListRules> preferences(const std::vector<std::array<int32_t, 2>>& most_in_flight);

/// The shortest order that the search finds. Every rule is followed in two ways: by list_schedule for the
/// problem's times; and, since even times give the most regular orders, by list_schedule as if all actions
/// took the same time and messages none, and then fill_weights for the problem's times. The best of either
/// way is made again with W that may hold something up, in all combinations. Not checked: `rules` is not
/// empty, and what list_schedule does not check.
ListOrder shortest_list_schedule(const VProblem& problem, const std::vector<ListRules>& rules);

/// The shortest of fill_weights with all four FillRules; nothing if `ranks` cannot keep to the memory limit.
std::optional<ListOrder> shortest_filling(const VProblem& problem,
                                          const std::vector<std::vector<Action>>& ranks);

/// The one of the two whose longest rank takes less time (simulate); `first` unless `second` gains more than
/// rounding. Throws what simulate throws.
Schedule shorter(Schedule first, Schedule second, const Durations& durations);

}  // namespace braid::schedule
