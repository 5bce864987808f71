#include "braid/report/step_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace braid::report {
namespace {

IntervalMetrics sample_interval() {
  return {.loss = 10.495855331,
          .learning_rate = 1e-6,
          .grad_norm = 1.25,
          .global_step = 10,
          .max_steps = 100,
          .steps = 10,
          .samples = 160,
          .tokens = 327680,
          .flops = 8e13,
          .ranks = 4,
          .elapsed = std::chrono::duration<double>(31.7),
          .gemm_share = 0.75,
          .memory = {.allocated_bytes = int64_t{1} << 30,
                     .reserved_bytes = int64_t{3} << 29,
                     .max_allocated_bytes = int64_t{2} << 30,
                     .max_reserved_bytes = int64_t{5} << 29}};
}

TEST(LogLine, GoldenText) {
  EXPECT_EQ(full_line(log_entry(sample_interval())),
            "loss: 10.49585533, learning_rate: 1e-06, global_step: 10, current_memory_allocated: 1.0000, "
            "current_memory_reserved: 1.5000, max_memory_allocated: 2.0000, max_memory_reserved: 2.5000, "
            "interval_runtime: 31.7000, interval_samples_per_second: 5.0473, "
            "interval_tokens_per_second_per_device: 2584.2, interval_hardware_tflops_per_device: 0.630915, "
            "interval_steps_per_second: 0.315457, progress_or_epoch: 0.1000, grad_norm: 1.2500, "
            "gemm_share: 0.750, eta: 4:45");
}

// With the time before it, "14:05:09 ", the line fits a terminal of 80 columns.
TEST(LogLine, TheShortOneFitsATerminal) {
  EXPECT_EQ(short_line(log_entry(sample_interval()), 71),
            "step 10  loss 10.4959  lr 1e-06  norm 1.25  10337 tokens/s  eta 4:45");
  IntervalMetrics large = sample_interval();
  large.global_step = large.max_steps = 1'000'000;
  large.learning_rate = 2.1345e-4;
  large.grad_norm = 123456;
  large.tokens = 900'000'000;
  EXPECT_EQ(short_line(log_entry(large), 71), "step 1000000  loss 10.4959  lr 0.000213  norm 1.23e+05");
}

// A line that a user reads, and the number that is drawn, are the same.
TEST(LogLine, EveryTextIsItsValue) {
  for (const Metric& metric : log_entry(sample_interval()).metrics) {
    if (metric.key == "eta") continue;  // shown as a clock
    EXPECT_NEAR(std::stod(metric.text), metric.value, std::fabs(metric.value) * 1e-4) << metric.key;
  }
}

TEST(LogLine, OneThroughputInAllLines) {
  const IntervalMetrics interval = sample_interval();
  const LogEntry whole = log_entry(TrainingMetrics{.steps = interval.steps,
                                                   .loss = 2.5,
                                                   .samples = interval.samples,
                                                   .tokens = interval.tokens,
                                                   .ranks = interval.ranks,
                                                   .elapsed = interval.elapsed + std::chrono::seconds(60),
                                                   .step_time = interval.elapsed});
  EXPECT_EQ(full_line(whole),
            "train_runtime: 91.7000, train_samples_per_second: 1.7448, train_steps_per_second: 0.109051, "
            "train_loss: 2.50000000, Effective Tokens per second: 10336.91, ips: 2584.23 tokens/s/device");
  EXPECT_EQ(short_line(whole, 71), "10 steps  in 1:32  mean loss 2.5000  10337 tokens/s");
  EXPECT_EQ(log_entry(interval).metrics[9].key, "interval_tokens_per_second_per_device");
  EXPECT_DOUBLE_EQ(log_entry(interval).metrics[9].value, whole.metrics[5].value);
}

TEST(Json, EveryFloatReadsBackExactly) {
  double loss = 3.0;
  for (int i = 0; i < 1000; ++i) {
    loss = std::nextafter(loss * 1.0173, 0.0);
    const StepMetrics metrics = {
        .global_step = i, .loss = loss, .learning_rate = loss * 1e-6, .grad_norm = 1 / loss};
    const auto json = nlohmann::json::parse(to_json(metrics));
    EXPECT_EQ(json["loss"].get<double>(), metrics.loss);
    EXPECT_EQ(json["learning_rate"].get<double>(), metrics.learning_rate);
    EXPECT_EQ(json["grad_norm"].get<double>(), metrics.grad_norm);
    EXPECT_EQ(json["global_step"].get<int64_t>(), i);
  }
}

TEST(Json, NotANumberIsNullAndMemoryHasOneEntryARank) {
  StepMetrics metrics = {.loss = std::numeric_limits<double>::quiet_NaN(),
                         .grad_norm = std::numeric_limits<double>::infinity()};
  metrics.memory = {{.allocated_bytes = 1}, {.allocated_bytes = 2, .max_reserved_bytes = 7}};
  const auto json = nlohmann::json::parse(to_json(metrics));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
  ASSERT_EQ(json["memory"].size(), 2u);
  EXPECT_EQ(json["memory"][1]["max_reserved_bytes"], 7);
}

TEST(EvalMetricsText, LineAndJsonAgree) {
  const EvalMetrics metrics = {.global_step = 20,
                               .loss = 2.5,
                               .tokens = 640,
                               .samples = 10,
                               .elapsed = std::chrono::duration<double>(2.0)};
  EXPECT_EQ(full_line(log_entry(metrics)),
            "eval_loss: 2.50000000, eval_ppl: 12.1825, global_step: 20, eval_runtime: 2.0000, "
            "eval_samples_per_second: 5.0000, eval_tokens: 640");
  EXPECT_EQ(short_line(log_entry(metrics), 71), "step 20  eval loss 2.5000  ppl 12.18  640 tokens  in 0:02");
  const auto json = nlohmann::json::parse(to_json(metrics));
  EXPECT_EQ(json["type"], "eval");
  EXPECT_EQ(json["eval_loss"], 2.5);
}

TEST(ClockText, MinutesAndHours) {
  EXPECT_EQ(clock_text(std::chrono::seconds(7)), "0:07");
  EXPECT_EQ(clock_text(std::chrono::seconds(754)), "12:34");
  EXPECT_EQ(clock_text(std::chrono::seconds(3723)), "1:02:03");
  EXPECT_EQ(clock_text(std::chrono::duration<double>(-1)), "0:00");
}

}  // namespace
}  // namespace braid::report
