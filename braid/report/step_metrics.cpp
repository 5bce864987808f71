#include "braid/report/step_metrics.h"

#include <cmath>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::report {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// `value` with at least four significant digits: 0.3154, 5.073, 81166.0.
std::string rate_text(double value) {
  if (!std::isfinite(value)) return to_text(value);
  const int digits = value >= 1000 ? 1 : value >= 1 ? 4 : 6;
  return fixed(value, digits);
}

Metric memory(std::string key, int64_t bytes) {
  const double gib = static_cast<double>(bytes) / kGiB;
  return {.key = std::move(key), .value = gib, .text = fixed(gib, 4)};
}

std::string json_number(double value) { return std::isfinite(value) ? to_text(value) : "null"; }

double per_second(double amount, std::chrono::duration<double> elapsed) {
  return elapsed.count() > 0 ? amount / elapsed.count() : 0.0;
}

Metric rate(std::string key, double amount, std::chrono::duration<double> elapsed) {
  const double value = per_second(amount, elapsed);
  return {.key = std::move(key), .value = value, .text = rate_text(value)};
}

}  // namespace

std::string clock_text(std::chrono::duration<double> elapsed) {
  const auto seconds = static_cast<int64_t>(std::llround(std::max(0.0, elapsed.count())));
  const auto two = [](int64_t value) { return value < 10 ? cat("0", value) : cat(value); };
  const int64_t hours = seconds / 3600, minutes = seconds / 60 % 60;
  return hours > 0 ? cat(hours, ":", two(minutes), ":", two(seconds % 60))
                   : cat(minutes, ":", two(seconds % 60));
}

LogEntry log_entry(const IntervalMetrics& m) {
  const double seconds = m.elapsed.count();
  const double per_step = m.steps > 0 ? seconds / static_cast<double>(m.steps) : 0.0;
  const double left = per_step * static_cast<double>(m.max_steps - m.global_step);
  const std::string eta = clock_text(std::chrono::duration<double>(left));
  const auto ranks = static_cast<double>(m.ranks);
  const double tokens_per_second = per_second(static_cast<double>(m.tokens), m.elapsed);
  const double progress = static_cast<double>(m.global_step) / static_cast<double>(m.max_steps);
  return {.global_step = m.global_step,
          .metrics = {{"loss", m.loss, fixed(m.loss, 8)},
                      {"learning_rate", m.learning_rate, brief(m.learning_rate, 6)},
                      {"global_step", static_cast<double>(m.global_step), cat(m.global_step)},
                      memory("current_memory_allocated", m.memory.allocated_bytes),
                      memory("current_memory_reserved", m.memory.reserved_bytes),
                      memory("max_memory_allocated", m.memory.max_allocated_bytes),
                      memory("max_memory_reserved", m.memory.max_reserved_bytes),
                      {"interval_runtime", seconds, fixed(seconds, 4)},
                      rate("interval_samples_per_second", static_cast<double>(m.samples), m.elapsed),
                      rate("interval_tokens_per_second_per_device", static_cast<double>(m.tokens) / ranks,
                           m.elapsed),
                      rate("interval_hardware_tflops_per_device", m.flops / ranks / 1e12, m.elapsed),
                      rate("interval_steps_per_second", static_cast<double>(m.steps), m.elapsed),
                      {"progress_or_epoch", progress, fixed(progress, 4)},
                      {"grad_norm", m.grad_norm, rate_text(m.grad_norm)},
                      {"gemm_share", m.gemm_share, fixed(m.gemm_share, 3)},
                      {"eta", left, eta}},
          .brief = {cat("step ", m.global_step), cat("loss ", fixed(m.loss, 4)),
                    cat("lr ", brief(m.learning_rate, 3)), cat("norm ", brief(m.grad_norm, 3)),
                    cat(fixed(tokens_per_second, 0), " tokens/s"), cat("eta ", eta)}};
}

std::string to_json(const StepMetrics& m) {
  std::string memory;
  for (const RankMemory& rank : m.memory) {
    memory += cat(memory.empty() ? "" : ",", "{\"allocated_bytes\":", rank.allocated_bytes,
                  ",\"reserved_bytes\":", rank.reserved_bytes,
                  ",\"max_allocated_bytes\":", rank.max_allocated_bytes,
                  ",\"max_reserved_bytes\":", rank.max_reserved_bytes, "}");
  }
  return cat("{\"type\":\"train\",\"global_step\":", m.global_step, ",\"loss\":", json_number(m.loss),
             ",\"learning_rate\":", json_number(m.learning_rate), ",\"grad_norm\":", json_number(m.grad_norm),
             ",\"tokens\":", m.tokens,
             m.loss_scale ? cat(",\"loss_scale\":", json_number(*m.loss_scale),
                                ",\"skipped\":", m.skipped ? "true" : "false")
                          : "",
             ",\"step_seconds\":", json_number(m.elapsed.count()),
             ",\"gemm_share\":", json_number(m.gemm_share), ",\"memory\":[", memory, "]}");
}

LogEntry log_entry(const EvalMetrics& m) {
  const double perplexity = std::exp(m.loss);
  const double seconds = m.elapsed.count();
  return {.global_step = m.global_step,
          .metrics = {{m.part + "_loss", m.loss, fixed(m.loss, 8)},
                      {m.part + "_ppl", perplexity, fixed(perplexity, 4)},
                      {"global_step", static_cast<double>(m.global_step), cat(m.global_step)},
                      {m.part + "_runtime", seconds, fixed(seconds, 4)},
                      rate(m.part + "_samples_per_second", static_cast<double>(m.samples), m.elapsed),
                      {m.part + "_tokens", static_cast<double>(m.tokens), cat(m.tokens)}},
          .brief = {cat("step ", m.global_step), cat(m.part, " loss ", fixed(m.loss, 4)),
                    cat("ppl ", brief(perplexity, 4)), counted(m.tokens, "token"),
                    cat("in ", clock_text(m.elapsed))}};
}

std::string to_json(const EvalMetrics& m) {
  return cat("{\"type\":\"", m.part, "\",\"global_step\":", m.global_step, ",\"", m.part,
             "_loss\":", json_number(m.loss), ",\"tokens\":", m.tokens,
             ",\"runtime_seconds\":", json_number(m.elapsed.count()), "}");
}

LogEntry log_entry(const TrainingMetrics& m) {
  const double seconds = m.elapsed.count();
  const double tokens_per_second = per_second(static_cast<double>(m.tokens), m.step_time);
  const double per_device = tokens_per_second / static_cast<double>(m.ranks);
  return {.global_step = m.steps,
          .metrics = {{"train_runtime", seconds, fixed(seconds, 4)},
                      rate("train_samples_per_second", static_cast<double>(m.samples), m.elapsed),
                      rate("train_steps_per_second", static_cast<double>(m.steps), m.elapsed),
                      {"train_loss", m.loss, fixed(m.loss, 8)},
                      {"Effective Tokens per second", tokens_per_second, fixed(tokens_per_second, 2)},
                      {"ips", per_device, cat(fixed(per_device, 2), " tokens/s/device")}},
          .brief = {counted(m.steps, "step"), cat("in ", clock_text(m.elapsed)),
                    cat("mean loss ", fixed(m.loss, 4)), cat(fixed(tokens_per_second, 0), " tokens/s")}};
}

}  // namespace braid::report
