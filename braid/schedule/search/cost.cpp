#include "braid/schedule/search/cost.h"

#include <algorithm>
#include <cmath>

#include "braid/schedule/memory.h"

namespace braid::schedule {

int64_t parts_of(Seconds time, Seconds busiest) {
  return busiest > Seconds(0) ? std::llround(time / busiest * 1e9) : 0;
}

Cost cost_of(const Schedule& schedule, const Workload& workload) {
  const Simulation simulation = simulate(schedule, workload.durations);
  const std::vector<int64_t> peaks = peak_memory(schedule, workload.memory);
  const Seconds busiest = simulation.longest_span * (1.0 - simulation.bubble_rate);
  return {.longest_span = parts_of(simulation.longest_span, busiest),
          .step_time = parts_of(simulation.step_time, busiest),
          .peak_memory = *std::max_element(peaks.begin(), peaks.end())};
}

void BestSchedule::offer(Schedule schedule) {
  const Cost cost = cost_of(schedule, workload_);
  if (best_ && cost >= cost_) return;
  best_ = std::move(schedule);
  cost_ = cost;
}

}  // namespace braid::schedule
