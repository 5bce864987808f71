// The criteria by which schedules for the same work are compared.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// Times in billionths of the time that the busiest rank computes: rounding of sums must not decide between
/// schedules, nor hide that one of them keeps less. Smaller is better; the first member counts most.
struct Cost {
  int64_t longest_span = 0;
  int64_t step_time = 0;
  int64_t peak_memory = 0;  ///< of the rank that keeps most, in the unit of the workload's memory

  friend auto operator<=>(const Cost&, const Cost&) = default;
};

/// `time` in the unit of Cost. 0 if the busiest rank has nothing to do.
int64_t parts_of(Seconds time, Seconds busiest);

/// The cost of `schedule`. Throws like simulate and peak_memory.
Cost cost_of(const Schedule& schedule, const Workload& workload);

/// Keeps the best of the schedules offered to it for one workload; of equal ones, the first.
class BestSchedule {
 public:
  explicit BestSchedule(Workload workload) : workload_(std::move(workload)) {}

  /// Throws like cost_of.
  void offer(Schedule schedule);

  /// Nothing if none was offered.
  std::optional<Schedule> take() { return std::move(best_); }

 private:
  Workload workload_;
  std::optional<Schedule> best_;
  Cost cost_;
};

}  // namespace braid::schedule
