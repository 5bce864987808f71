#include "braid/schedule/search/memory_limited.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/search/cost.h"
#include "braid/schedule/search/weight_placement.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

// The time from the end of a microbatch's first forward on `stage` until its gradient comes back there.
double round_trip(const PipelineShape& shape, const Durations& durations, int32_t stage) {
  double time = 0;
  for (int32_t later = stage + 1; later < shape.stages(); ++later) {
    const StageTimes& times = durations.of(later);
    time += (times.forward + times.backward_input + 2 * durations.communication).count();
  }
  return time;
}

enum class Rounding { kDown, kUp };

// How many forwards, one every `forward` seconds, a stage runs in `time`. At most m.
int64_t forwards_in(double time, double forward, Rounding rounding, int32_t microbatches) {
  if (time <= 0) return 0;
  const double fit = time / forward;
  // Sums of times must not turn a whole number into the next one.
  const double whole = rounding == Rounding::kDown ? std::floor(fit + 1e-9) : std::ceil(fit - 1e-9);
  return whole < microbatches ? static_cast<int64_t>(whole) : microbatches;
}

// How many microbatches a stage may have in flight.
int64_t room(const Memory& memory, int32_t stage, int64_t limit, int32_t microbatches) {
  const int64_t kept = memory.of(stage).forward_to_backward;
  return kept > 0 ? limit / kept : microbatches;
}

// How later ranks take it if the first has no room for all the forwards that fit into its round trip.
enum class Shortage { kIgnored, kShared };

struct Variant {
  Rounding rounding;
  Shortage shortage;
};

constexpr std::array kVariants = {
    Variant{Rounding::kDown, Shortage::kIgnored}, Variant{Rounding::kUp, Shortage::kIgnored},
    Variant{Rounding::kDown, Shortage::kShared}, Variant{Rounding::kUp, Shortage::kShared}};

// The forwards before each rank's first gradient: one, and those that its round trip has time for, but fewer
// than on the rank before. While there is room it has as many as ranks are left, itself included, without
// which the first gradient's way back would hold up the pipeline.
std::vector<int32_t> forwards_first(const PipelineShape& shape, const Workload& workload, int64_t limit,
                                    Variant variant) {
  const int32_t microbatches = shape.microbatches;
  std::vector<int32_t> forwards;
  double slowest = 0;
  double missing = 0;  // seconds of the round trips that have no forwards
  int64_t before = microbatches + 1;
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    slowest = std::max(slowest, workload.durations.of(rank).forward.count());
    const double trip = round_trip(shape, workload.durations, rank);
    const int64_t in_hand = 1 + forwards_in(trip - missing, slowest, variant.rounding, microbatches);
    const int64_t wanted = std::max<int64_t>(std::min(in_hand, before - 1), shape.ranks - rank);
    const int64_t most = std::min<int64_t>(before, microbatches);
    before = std::min({most, wanted, room(workload.memory, rank, limit, microbatches)});
    forwards.push_back(static_cast<int32_t>(before));
    if (rank == 0 && variant.shortage == Shortage::kShared)
      missing = std::max(0.0, trip - static_cast<double>(before - 1) * slowest);
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

Schedule one_at_a_time(const PipelineShape& shape) {
  return skeleton(shape, std::vector<int32_t>(static_cast<size_t>(shape.ranks), 1));
}

}  // namespace

std::vector<int64_t> limits_to_search(const PipelineShape& shape, const Workload& workload) {
  int64_t kept = 0;
  for (const StageMemory& stage : workload.memory.stages) {
    kept = std::max({kept, stage.forward_to_backward, stage.backward_to_weight});
  }
  const int64_t unit = std::max<int64_t>(1, kept * shape.chunks_per_rank);
  const double forward = workload.durations.of(0).forward.count();
  const int64_t enough = std::min<int64_t>(
      shape.microbatches,
      shape.ranks + forwards_in(round_trip(shape, workload.durations, 0), forward * shape.chunks_per_rank,
                                Rounding::kUp, shape.microbatches));
  const int64_t highest = std::min(enough * unit, workload.memory_limit.value_or(enough * unit));
  const int64_t step = (enough + kLimitSteps - 1) / kLimitSteps * unit;
  std::vector<int64_t> limits;
  for (int64_t limit = step; limit < highest; limit += step) limits.push_back(limit);
  limits.push_back(highest);
  return limits;
}

int64_t least_of_memory_limited(const PipelineShape& shape, const Memory& memory) {
  return least_limit(one_at_a_time(shape), memory);
}

Schedule memory_limited(const PipelineShape& shape, const Workload& workload) {
  validate(shape);
  require<ConfigError>(shape.chunks_per_rank == 1,
                       "the memory-limited search runs with 1 chunk per rank, got ", shape.chunks_per_rank);
  cost_of(one_at_a_time(shape), workload);  // rejects a workload that does not match the shape
  const int64_t least = least_of_memory_limited(shape, workload.memory);
  require<ConfigError>(least <= workload.memory_limit.value_or(least), "a limit of ",
                       amount_text(workload.memory, workload.memory_limit.value_or(least)),
                       " has no room for one microbatch: the least is ", amount_text(workload.memory, least));
  BestSchedule best(workload);
  std::set<std::pair<std::vector<int32_t>, int64_t>> tried;
  for (const int64_t limit : limits_to_search(shape, workload)) {
    if (limit < least) continue;
    for (const Variant variant : kVariants) {
      const std::vector<int32_t> first = forwards_first(shape, workload, limit, variant);
      const Schedule order = skeleton(shape, first);
      if (!tried.insert({first, std::min(limit, most_kept(order, workload.memory))}).second) continue;
      std::optional<Schedule> placed = place_weights(
          order, {.durations = workload.durations, .memory = workload.memory, .memory_limit = limit});
      if (placed) best.offer(std::move(*placed));
    }
  }
  // The highest of the limits is at least `least`, which leaves room for every order made above.
  return *best.take();
}

}  // namespace braid::schedule
