#include "braid/schedule/search/v_search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

constexpr std::array kFills = {FillRules{.before_forward = false, .before_backward = false},
                               FillRules{.before_forward = true, .before_backward = false},
                               FillRules{.before_forward = false, .before_backward = true},
                               FillRules{.before_forward = true, .before_backward = true}};

// Whether all actions take the same time and messages none. Then every wait is long enough for a W.
bool has_even_times(const VProblem& problem) {
  const int64_t ticks = problem.ranks[0].ticks[0];
  return problem.communication_ticks == 0 &&
         std::all_of(problem.ranks.begin(), problem.ranks.end(), [&](const VRank& rank) {
           const auto is_same = [&](int64_t other) { return other == ticks; };
           return std::all_of(rank.ticks.begin(), rank.ticks.end(), is_same) &&
                  std::all_of(rank.weight_ticks.begin(), rank.weight_ticks.end(), is_same);
         });
}

// All actions take one tick, messages none.
VProblem with_even_times(VProblem problem) {
  problem.communication_ticks = 0;
  for (VRank& rank : problem.ranks) {
    rank.ticks.fill(1);
    rank.weight_ticks.fill(1);
  }
  return problem;
}

// Whether it did.
bool keep_shorter(std::optional<ListOrder>& best, std::optional<ListOrder> order) {
  if (!order || (best && best->longest_span_ticks <= order->longest_span_ticks)) return false;
  best = std::move(order);
  return true;
}

// How many microbatches of a chunk fit into the rank's limit, at least 2 and at most all of both chunks.
int64_t room(const VProblem& problem, const VRank& rank) {
  const int64_t all = int64_t{2} * problem.microbatches;
  const int64_t on_both = rank.forward_to_backward[0] + rank.forward_to_backward[1];
  if (on_both == 0) return all;
  const int64_t pairs = problem.memory_limit / on_both;
  if (pairs >= problem.microbatches) return all;
  const int64_t rest = problem.memory_limit % on_both;
  return std::max<int64_t>(2, 2 * pairs + (rest >= on_both - rest ? 1 : 0));
}

}  // namespace

std::vector<std::array<int32_t, 2>> tapered_limits(const VProblem& problem) {
  std::vector<std::array<int32_t, 2>> limits;
  const int64_t last = std::ssize(problem.ranks) - 1;
  for (int64_t rank = 0; rank <= last; ++rank) {
    const int64_t both = room(problem, problem.ranks[static_cast<size_t>(rank)]);
    const int64_t rounded_share = last == 0 ? 0 : (2 * rank * (both / 2 - 1) + last) / (2 * last);
    const int64_t on_1 = 1 + rounded_share;
    limits.push_back({static_cast<int32_t>(both - on_1), static_cast<int32_t>(on_1)});
  }
  return limits;
}

std::vector<ListRules> preferences(const std::vector<std::array<int32_t, 2>>& most_in_flight) {
  // The eight of 24 that together come nearest to what all find, over even and uneven times, 2 to 16 ranks
  // and memory from V-Min's to ZB-V's. Forwards of chunk 1 go early in most: they open the way back.
  constexpr std::array<std::array<int32_t, kVKinds>, 8> kOrders = {{{1, 0, 2, 3},
                                                                    {1, 0, 3, 2},
                                                                    {3, 2, 1, 0},
                                                                    {2, 1, 0, 3},
                                                                    {3, 1, 2, 0},
                                                                    {2, 1, 3, 0},
                                                                    {3, 0, 1, 2},
                                                                    {3, 0, 2, 1}}};
  std::vector<ListRules> rules;
  for (const auto& slots : kOrders) rules.push_back({.slots = {slots}, .most_in_flight = most_in_flight});
  return rules;
}

std::optional<ListOrder> shortest_filling(const VProblem& problem,
                                          const std::vector<std::vector<Action>>& ranks) {
  std::optional<ListOrder> best;
  for (const FillRules& fill : kFills) keep_shorter(best, fill_weights(problem, ranks, fill));
  return best;
}

ListOrder shortest_list_schedule(const VProblem& problem, const std::vector<ListRules>& rules) {
  const bool is_even = has_even_times(problem);
  const VProblem even = with_even_times(problem);
  std::optional<ListOrder> best;
  std::optional<ListOrder> best_filled;
  const ListRules* best_rule = nullptr;
  std::vector<std::vector<Action>> best_regular;
  for (const ListRules& rule : rules) {
    if (keep_shorter(best, list_schedule(problem, rule, {}))) best_rule = &rule;
    if (is_even) continue;
    ListOrder regular = list_schedule(even, rule, {});
    if (keep_shorter(best_filled, fill_weights(problem, regular.ranks, {}))) {
      best_regular = std::move(regular.ranks);
    }
  }
  if (is_even) return *std::move(best);
  // There is one: W can make room in the order of the even times wherever they did.
  keep_shorter(best, shortest_filling(problem, best_regular));
  for (const FillRules& fill : kFills) keep_shorter(best, list_schedule(problem, *best_rule, fill));
  return *std::move(best);
}

Schedule shorter(Schedule first, Schedule second, const Durations& durations) {
  constexpr double kRounding = 1e-12;
  const Seconds with_first = simulate(first, durations).longest_span;
  const Seconds with_second = simulate(second, durations).longest_span;
  return with_second < with_first * (1 - kRounding) ? std::move(second) : std::move(first);
}

}  // namespace braid::schedule
