// Accumulates the metrics of the steps between two log lines.
#pragma once

#include "braid/report/step_metrics.h"

namespace braid::report {

/// The constants of a run.
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

  /// Returns the interval so far and starts a new one. Call it after at least one add. `elapsed` is the sum
  /// of the steps' times, without the evaluations between them.
  IntervalMetrics take();

 private:
  RunShape shape_;
  IntervalMetrics sums_;
};

}  // namespace braid::report
