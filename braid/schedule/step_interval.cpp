#include "braid/schedule/step_interval.h"

#include <algorithm>
#include <vector>

#include "braid/schedule/clock.h"

namespace braid::schedule {
namespace {

// A time, and the rank whose start of the step it follows from.
struct Traced {
  Seconds time{0};
  int32_t from = 0;

  friend bool operator<(const Traced& left, const Traced& right) { return left.time < right.time; }
  friend Traced operator+(const Traced& left, Seconds right) { return {left.time + right, left.from}; }
};

// The step that decides when a rank may begin the next one: that of rank `from`, `time` before.
using Causes = std::vector<std::optional<Traced>>;  // by rank

// The largest mean time of a step around a cycle of causes; 0 if there is none.
Seconds longest_cycle(const Causes& causes) {
  Seconds longest{0};
  std::vector<size_t> seen_from(causes.size(), causes.size());
  for (size_t start = 0; start < causes.size(); ++start) {
    size_t rank = start;
    while (causes[rank] && seen_from[rank] == causes.size()) {
      seen_from[rank] = start;
      rank = static_cast<size_t>(causes[rank]->from);
    }
    if (!causes[rank] || seen_from[rank] != start) continue;
    Seconds sum{0};
    int32_t steps = 0;
    const size_t first = rank;
    do {
      sum += causes[rank]->time;
      ++steps;
      rank = static_cast<size_t>(causes[rank]->from);
    } while (rank != first);
    longest = std::max(longest, sum / steps);
  }
  return longest;
}

}  // namespace

// One step maps the ranks' starts x to their ends A(x), a linear map in the algebra of max and +, whose
// eigenvalue is the interval. It is the largest mean of a cycle of causes. Any cycle's mean is a lower bound,
// and it is the eigenvalue if with it A(x) - interval <= x for some x. So this looks for such an x as
// Bellman and Ford look for shortest paths, and where the x will not settle, its causes have a longer cycle.
// Source: Baccelli et al. 1992, Synchronization and Linearity, section 3.2.
Seconds step_interval(const Schedule& schedule, const Durations& durations) {
  validate(schedule);
  validate(durations, schedule);
  std::vector<Traced> starts(schedule.ranks.size());
  for (size_t rank = 0; rank < starts.size(); ++rank) starts[rank].from = static_cast<int32_t>(rank);
  Causes causes(starts.size());
  Seconds interval{0};
  for (;;) {
    const std::vector<Traced> ends = run_clock(schedule, durations, starts, [](auto...) {});
    bool is_settled = true;
    for (size_t rank = 0; rank < starts.size(); ++rank) {
      const Seconds next = ends[rank].time - interval;
      if (next - starts[rank].time <= 1e-12 * ends[rank].time) continue;
      const Seconds caused = ends[rank].time - starts[static_cast<size_t>(ends[rank].from)].time;
      causes[rank] = Traced{caused, ends[rank].from};
      is_settled = false;
    }
    if (is_settled) return interval;
    const Seconds longer = longest_cycle(causes);
    if (longer > interval) {
      interval = longer;
      causes.assign(causes.size(), std::nullopt);
    }
    for (size_t rank = 0; rank < starts.size(); ++rank) {
      starts[rank].time = std::max(starts[rank].time, ends[rank].time - interval);
    }
  }
}

}  // namespace braid::schedule
