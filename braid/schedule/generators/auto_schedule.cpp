#include "braid/schedule/generators/auto_schedule.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/search/cost.h"
#include "braid/schedule/search/memory_limited.h"
#include "braid/schedule/search/weight_placement.h"

namespace braid::schedule {
namespace {

Schedule named(Schedule schedule, const std::string& name) {
  schedule.name = name;
  return schedule;
}

std::optional<Schedule> try_generate(std::string_view mode, const PipelineShape& shape,
                                     const Workload& workload) {
  try {
    return generate(mode, shape, workload);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

Workload with_limit(Workload workload, std::optional<int64_t> limit) {
  workload.memory_limit = limit;
  return workload;
}

// The forwards and input gradients alone: place_weights makes the same of all schedules that share them.
std::vector<std::vector<Action>> order_of(const Schedule& schedule) {
  std::vector<std::vector<Action>> order;
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action>& kept = order.emplace_back();
    for (Action action : actions) {
      if (action.op == Op::kBackwardWeight) continue;
      if (action.op == Op::kBackward) action.op = Op::kBackwardInput;
      kept.push_back(action);
    }
  }
  return order;
}

bool has_same_order(const Schedule& one, const Schedule& other) {
  return one.placement == other.placement && one.table == other.table && order_of(one) == order_of(other);
}

// Offers the modes that fit as they are, and returns the orders of all that run with `shape`.
std::vector<Schedule> offer_modes(const PipelineShape& shape, const Workload& workload, BestSchedule& best) {
  std::vector<Schedule> orders;
  for (const Mode& mode : modes()) {
    if (mode.name == "auto") continue;
    std::optional<Schedule> fitting = try_generate(mode.name, shape, workload);
    if (fitting) best.offer(named(*fitting, cat("auto (", mode.name, ")")));
    std::optional<Schedule> any =
        fitting ? std::move(fitting) : try_generate(mode.name, shape, with_limit(workload, std::nullopt));
    if (any && std::none_of(orders.begin(), orders.end(),
                            [&](const Schedule& known) { return has_same_order(known, *any); })) {
      orders.push_back(std::move(*any));
    }
  }
  return orders;
}

void offer_placed_anew(const Schedule& order, const Workload& workload, BestSchedule& best) {
  const int64_t most = most_kept(order, workload.memory);
  std::vector<int64_t> limits = limits_to_search(order.shape, workload);
  // Modes with several chunks are many, and some look at the limit themselves.
  if (order.shape.chunks_per_rank > 1) limits = {workload.memory_limit.value_or(most)};
  for (const int64_t limit : limits) {
    std::optional<Schedule> placed = place_weights(order, with_limit(workload, limit));
    if (placed) best.offer(named(std::move(*placed), cat("auto (", order.name, ", weights placed anew)")));
    if (limit >= most) return;
  }
}

}  // namespace

Schedule auto_schedule(const PipelineShape& shape, const Workload& workload) {
  validate(shape);
  BestSchedule best(workload);
  const std::vector<Schedule> orders = offer_modes(shape, workload, best);
  require<ConfigError>(!orders.empty(), "auto found no mode that runs with ", shape.ranks, " ranks, ",
                       shape.chunks_per_rank, " chunks per rank and ", shape.microbatches,
                       " microbatches: change one of these numbers");
  cost_of(orders.front(), workload);  // rejects a workload that does not match the shape
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Schedule& order : orders) {
    least = std::min(least, least_limit(order, workload.memory));
    offer_placed_anew(order, workload, best);
  }
  if (shape.chunks_per_rank == 1) {
    const int64_t least_of_all = least_of_memory_limited(shape, workload.memory);
    least = std::min(least, least_of_all);
    if (least_of_all <= workload.memory_limit.value_or(least_of_all))
      best.offer(named(memory_limited(shape, workload), "auto (memory-limited)"));
  }
  std::optional<Schedule> result = best.take();
  require<ConfigError>(result.has_value(), "auto found no schedule that keeps at most ",
                       amount_text(workload.memory, workload.memory_limit.value_or(0)),
                       " on every rank: the least limit that would do is ",
                       amount_text(workload.memory, least));
  return std::move(*result);
}

}  // namespace braid::schedule
