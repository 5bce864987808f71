#include "braid/report/interval_meter.h"

#include <utility>

namespace braid::report {

void IntervalMeter::add(const StepMetrics& step) {
  sums_.steps += 1;
  sums_.loss += step.loss;
  sums_.samples += shape_.samples_per_step;
  sums_.tokens += step.tokens;
  sums_.elapsed += step.elapsed;
  sums_.gemm_share += step.gemm_share * step.elapsed.count();
  sums_.learning_rate = step.learning_rate;
  sums_.grad_norm = step.grad_norm;
  sums_.global_step = step.global_step;
  if (!step.memory.empty()) sums_.memory = step.memory[static_cast<size_t>(shape_.rank)];
}

IntervalMetrics IntervalMeter::take() {
  IntervalMetrics interval = std::exchange(sums_, {});
  interval.loss /= static_cast<double>(interval.steps);
  interval.gemm_share /= interval.elapsed.count();
  interval.flops = static_cast<double>(interval.tokens) * shape_.flops_per_token;
  interval.max_steps = shape_.max_steps;
  interval.ranks = shape_.ranks;
  return interval;
}

}  // namespace braid::report
