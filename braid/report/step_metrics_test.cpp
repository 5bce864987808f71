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
  EXPECT_EQ(log_line(sample_interval()),
            "loss: 10.49585533, learning_rate: 1e-06, global_step: 10, current_memory_allocated: 1.0000, "
            "current_memory_reserved: 1.5000, max_memory_allocated: 2.0000, max_memory_reserved: 2.5000, "
            "interval_runtime: 31.7000, interval_samples_per_second: 5.0473, "
            "interval_tokens_per_second_per_device: 2584.2, interval_hardware_tflops_per_device: 0.630915, "
            "interval_steps_per_second: 0.315457, progress_or_epoch: 0.1000, grad_norm: 1.2500, "
            "gemm_share: 0.750, eta: 4:45");
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
  EXPECT_EQ(log_line(metrics),
            "eval_loss: 2.50000000, eval_ppl: 12.1825, global_step: 20, eval_runtime: 2.0000, "
            "eval_samples_per_second: 5.0000, eval_tokens: 640");
  const auto json = nlohmann::json::parse(to_json(metrics));
  EXPECT_EQ(json["type"], "eval");
  EXPECT_EQ(json["eval_loss"], 2.5);
  EXPECT_FALSE(json.contains("part_tokens") || json.contains("text_bytes") || json.contains("bits_per_byte"));
}

TEST(EvalMetricsText, SaysHowMuchOfThePartWasReadAndBitsPerByte) {
  const EvalMetrics metrics = {.loss = std::log(2.0), .tokens = 600, .part_tokens = 900, .text_bytes = 2400};
  EXPECT_TRUE(log_line(metrics).ends_with(", eval_tokens: 600 of 900, eval_bits_per_byte: 0.2500"));
  const auto json = nlohmann::json::parse(to_json(metrics));
  EXPECT_EQ(json["tokens"], 600);
  EXPECT_EQ(json["part_tokens"], 900);
  EXPECT_EQ(json["text_bytes"], 2400);
  EXPECT_DOUBLE_EQ(json["bits_per_byte"], 0.25) << "a bit a token, four bytes a token";
}

TEST(ClockText, MinutesAndHours) {
  EXPECT_EQ(clock_text(std::chrono::seconds(7)), "0:07");
  EXPECT_EQ(clock_text(std::chrono::seconds(754)), "12:34");
  EXPECT_EQ(clock_text(std::chrono::seconds(3723)), "1:02:03");
  EXPECT_EQ(clock_text(std::chrono::duration<double>(-1)), "0:00");
}

}  // namespace
}  // namespace braid::report
