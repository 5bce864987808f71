// Sums up the steps between two log lines.
#pragma once

#include "braid/report/step_metrics.h"

namespace braid::report {

/// What does not change during a run.
struct RunShape {
  int64_t max_steps = 0;
  int64_t samples_per_step = 0;  ///< over all ranks
  int64_t ranks = 1;
  int64_t rank = 0;  ///< the one that prints: whose memory is shown
  double flops_per_token = 0;
};

class IntervalMeter {
 public:
  explicit IntervalMeter(const RunShape& shape) : shape_(shape) {}

  void add(const StepMetrics& step);

  /// The interval so far; the next add begins a new one. Call it after at least one add. Its time is that of
  /// the steps: evaluations between them do not count.
  IntervalMetrics take();

 private:
  RunShape shape_;
  IntervalMetrics sums_;
};

}  // namespace braid::report
