#include "braid/report/interval_meter.h"

#include <gtest/gtest.h>

namespace braid::report {
namespace {

StepMetrics step_of(int64_t number, double loss, double seconds, double gemm_share) {
  return {.global_step = number,
          .loss = loss,
          .learning_rate = 1e-3 * static_cast<double>(number),
          .grad_norm = loss / 2,
          .tokens = 100,
          .elapsed = std::chrono::duration<double>(seconds),
          .gemm_share = gemm_share,
          .memory = {{.allocated_bytes = 1}, {.allocated_bytes = 10 * number}}};
}

TEST(IntervalMeter, SumsAveragesAndKeepsTheLast) {
  IntervalMeter meter(
      {.max_steps = 50, .samples_per_step = 8, .ranks = 2, .rank = 1, .flops_per_token = 1000});
  meter.add(step_of(1, 4.0, 1.0, 0.5));
  meter.add(step_of(2, 2.0, 3.0, 0.9));
  const IntervalMetrics interval = meter.take();
  EXPECT_EQ(interval.loss, 3.0);
  EXPECT_EQ(interval.learning_rate, 2e-3);
  EXPECT_EQ(interval.grad_norm, 1.0);
  EXPECT_EQ(interval.global_step, 2);
  EXPECT_EQ(interval.max_steps, 50);
  EXPECT_EQ(interval.steps, 2);
  EXPECT_EQ(interval.samples, 16);
  EXPECT_EQ(interval.tokens, 200);
  EXPECT_EQ(interval.flops, 200000);
  EXPECT_EQ(interval.elapsed.count(), 4.0);
  EXPECT_DOUBLE_EQ(interval.gemm_share, (0.5 * 1 + 0.9 * 3) / 4) << "weighted by time";
  EXPECT_EQ(interval.memory.allocated_bytes, 20) << "of the rank that prints";
}

TEST(IntervalMeter, TakeBeginsAnew) {
  IntervalMeter meter({.max_steps = 5, .samples_per_step = 1});
  meter.add(step_of(1, 4.0, 1.0, 0.5));
  meter.take();
  meter.add(step_of(2, 6.0, 2.0, 0.25));
  const IntervalMetrics interval = meter.take();
  EXPECT_EQ(interval.steps, 1);
  EXPECT_EQ(interval.loss, 6.0);
  EXPECT_EQ(interval.gemm_share, 0.25);
}

}  // namespace
}  // namespace braid::report
