#include "braid/schedule/memory_limited.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/cost.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"
#include "braid/schedule/weight_placement.h"

namespace braid::schedule {
namespace {

template <typename T>
const T& of_stage(const std::vector<T>& stages, size_t stage) {
  return stages[stages.size() == 1 ? 0 : stage];
}

// The time from the end of a microbatch's first forward on `stage` until its gradient comes back there.
double round_trip(const PipelineShape& shape, const Durations& durations, int32_t stage) {
  double time = 0;
  for (int32_t later = stage + 1; later < shape.stages(); ++later) {
    const StageTimes& times = of_stage(durations.stages, static_cast<size_t>(later));
    time += (times.forward + times.backward_input + 2 * durations.communication).count();
  }
  return time;
}

enum class Rounding { kDown, kUp };

// How many forwards, one every `forward` seconds, a stage runs before the first gradient is back: the first
// one, and what fits into the round trip. At most m.
int32_t forwards_in_hand(double round_trip, double forward, Rounding rounding, int32_t microbatches) {
  if (round_trip <= 0) return 1;
  const double fit = round_trip / forward;
  // Sums of times must not turn a whole number into the next one.
  const double more = rounding == Rounding::kDown ? std::floor(fit + 1e-9) : std::ceil(fit - 1e-9);
  return more + 1 < microbatches ? 1 + static_cast<int32_t>(more) : microbatches;
}

// How many microbatches a stage may have in hand.
int64_t room(const Memory& memory, size_t stage, int64_t limit, int32_t microbatches) {
  const int64_t kept = of_stage(memory.stages, stage).forward_to_backward;
  return kept > 0 ? limit / kept : microbatches;
}

// The forwards before each rank's first gradient. A rank runs fewer than the one before: it gets its
// gradients earlier, and more would only wait. But while there is room it has as many as ranks are left,
// itself included, without which the first gradient's way back would hold up the pipeline.
std::vector<int32_t> forwards_first(const PipelineShape& shape, const Workload& workload, int64_t limit,
                                    Rounding rounding) {
  std::vector<int32_t> forwards;
  double slowest = 0;
  int64_t before = shape.microbatches;
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    const auto stage = static_cast<size_t>(rank);
    slowest = std::max(slowest, of_stage(workload.durations.stages, stage).forward.count());
    const int64_t in_hand =
        forwards_in_hand(round_trip(shape, workload.durations, rank), slowest, rounding, shape.microbatches);
    const int64_t fit = room(workload.memory, stage, limit, shape.microbatches);
    const int64_t fewer = rank == 0 ? before : before - 1;
    const int64_t wanted = std::max<int64_t>(std::min(in_hand, fewer), shape.ranks - rank);
    before = std::min({before, fit, wanted});
    forwards.push_back(static_cast<int32_t>(before));
  }
  return forwards;
}

Schedule skeleton(const PipelineShape& shape, const std::vector<int32_t>& forwards_first) {
  Schedule schedule = {.name = "memory-limited", .shape = shape};
  for (const int32_t first : forwards_first) {
    std::vector<Action>& order = schedule.ranks.emplace_back();
    int32_t forwards = 0;
    const auto forward = [&] { order.push_back({.op = Op::kForward, .microbatch = forwards++}); };
    while (forwards < first) forward();
    for (int32_t i = 0; i < shape.microbatches; ++i) {
      order.push_back({.op = Op::kBackward, .microbatch = i});
      if (forwards < shape.microbatches) forward();
    }
  }
  return schedule;
}

}  // namespace

std::vector<int64_t> limits_to_search(const PipelineShape& shape, const Workload& workload) {
  int64_t kept = 0;
  for (const StageMemory& stage : workload.memory.stages) {
    kept = std::max({kept, stage.forward_to_backward, stage.backward_to_weight});
  }
  const int64_t unit = std::max<int64_t>(1, kept * shape.chunks_per_rank);
  const double forward = of_stage(workload.durations.stages, 0).forward.count();
  const int64_t enough =
      std::min(shape.microbatches,
               shape.ranks - 1 +
                   forwards_in_hand(round_trip(shape, workload.durations, 0), forward * shape.chunks_per_rank,
                                    Rounding::kUp, shape.microbatches));
  const int64_t highest = std::min(enough * unit, workload.memory_limit.value_or(enough * unit));
  const int64_t step = (enough + kLimitSteps - 1) / kLimitSteps * unit;
  std::vector<int64_t> limits;
  for (int64_t limit = step; limit < highest; limit += step) limits.push_back(limit);
  limits.push_back(highest);
  return limits;
}

Schedule memory_limited(const PipelineShape& shape, const Workload& workload) {
  validate(shape);
  require<ConfigError>(shape.chunks_per_rank == 1,
                       "the memory-limited search runs with 1 chunk per rank, got ", shape.chunks_per_rank);
  const Schedule one_at_a_time = skeleton(shape, std::vector<int32_t>(static_cast<size_t>(shape.ranks), 1));
  cost_of(one_at_a_time, workload);  // refuses what does not suit the shape
  const int64_t least = least_limit(one_at_a_time, workload.memory);
  require<ConfigError>(least <= workload.memory_limit.value_or(least), "a limit of ",
                       workload.memory_limit.value_or(least),
                       " has no room for one microbatch: the least is ", least);
  std::optional<Schedule> best;
  std::optional<Cost> best_cost;
  std::set<std::pair<std::vector<int32_t>, int64_t>> tried;
  for (const int64_t limit : limits_to_search(shape, workload)) {
    if (limit < least) continue;
    for (const Rounding rounding : {Rounding::kDown, Rounding::kUp}) {
      const std::vector<int32_t> first = forwards_first(shape, workload, limit, rounding);
      const Schedule order = skeleton(shape, first);
      const int64_t usable = std::min(limit, most_kept(order, workload.memory));
      if (!tried.insert({first, usable}).second) continue;
      std::optional<Schedule> placed = place_weights(
          order, {.durations = workload.durations, .memory = workload.memory, .memory_limit = usable});
      if (!placed) continue;
      const Cost cost = cost_of(*placed, workload);
      if (best_cost && cost >= *best_cost) continue;
      best = std::move(placed);
      best_cost = cost;
    }
  }
  return *best;
}

}  // namespace braid::schedule
