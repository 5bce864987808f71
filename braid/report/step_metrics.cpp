#include "braid/report/step_metrics.h"

#include <cmath>
#include <numbers>

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

std::string gib_text(int64_t bytes) { return fixed(static_cast<double>(bytes) / kGiB, 4); }

std::string json_number(double value) { return std::isfinite(value) ? to_text(value) : "null"; }

double per_second(double amount, std::chrono::duration<double> elapsed) {
  return elapsed.count() > 0 ? amount / elapsed.count() : 0.0;
}

}  // namespace

std::string clock_text(std::chrono::duration<double> elapsed) {
  const auto seconds = static_cast<int64_t>(std::llround(std::max(0.0, elapsed.count())));
  const auto two = [](int64_t value) { return value < 10 ? cat("0", value) : cat(value); };
  const int64_t hours = seconds / 3600, minutes = seconds / 60 % 60;
  return hours > 0 ? cat(hours, ":", two(minutes), ":", two(seconds % 60))
                   : cat(minutes, ":", two(seconds % 60));
}

std::string log_line(const IntervalMetrics& m) {
  const double seconds = m.elapsed.count();
  const double per_step = m.steps > 0 ? seconds / static_cast<double>(m.steps) : 0.0;
  const auto left =
      std::chrono::duration<double>(per_step * static_cast<double>(m.max_steps - m.global_step));
  const auto ranks = static_cast<double>(m.ranks);
  return cat(
      "loss: ", fixed(m.loss, 8), ", learning_rate: ", brief(m.learning_rate, 6),
      ", global_step: ", m.global_step, ", current_memory_allocated: ", gib_text(m.memory.allocated_bytes),
      ", current_memory_reserved: ", gib_text(m.memory.reserved_bytes),
      ", max_memory_allocated: ", gib_text(m.memory.max_allocated_bytes),
      ", max_memory_reserved: ", gib_text(m.memory.max_reserved_bytes),
      ", interval_runtime: ", fixed(seconds, 4),
      ", interval_samples_per_second: ", rate_text(per_second(static_cast<double>(m.samples), m.elapsed)),
      ", interval_tokens_per_second_per_device: ",
      rate_text(per_second(static_cast<double>(m.tokens), m.elapsed) / ranks),
      ", interval_hardware_tflops_per_device: ", rate_text(per_second(m.flops, m.elapsed) / ranks / 1e12),
      ", interval_steps_per_second: ", rate_text(per_second(static_cast<double>(m.steps), m.elapsed)),
      ", progress_or_epoch: ",
      fixed(static_cast<double>(m.global_step) / static_cast<double>(m.max_steps), 4),
      ", grad_norm: ", rate_text(m.grad_norm), ", gemm_share: ", fixed(m.gemm_share, 3),
      ", eta: ", clock_text(left));
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

std::optional<double> bits_per_byte(const EvalMetrics& m) {
  if (m.text_bytes.value_or(0) <= 0) return std::nullopt;
  return m.loss / std::numbers::ln2 * static_cast<double>(m.tokens) / static_cast<double>(*m.text_bytes);
}

std::string log_line(const EvalMetrics& m) {
  const std::optional<double> bits = bits_per_byte(m);
  return cat(m.part, "_loss: ", fixed(m.loss, 8), ", ", m.part, "_ppl: ", fixed(std::exp(m.loss), 4),
             ", global_step: ", m.global_step, ", ", m.part, "_runtime: ", fixed(m.elapsed.count(), 4), ", ",
             m.part,
             "_samples_per_second: ", rate_text(per_second(static_cast<double>(m.samples), m.elapsed)), ", ",
             m.part, "_tokens: ", m.tokens, m.part_tokens > 0 ? cat(" of ", m.part_tokens) : "",
             bits ? cat(", ", m.part, "_bits_per_byte: ", fixed(*bits, 4)) : "");
}

std::string to_json(const EvalMetrics& m) {
  const std::optional<double> bits = bits_per_byte(m);
  return cat("{\"type\":\"", m.part, "\",\"global_step\":", m.global_step, ",\"", m.part,
             "_loss\":", json_number(m.loss), ",\"tokens\":", m.tokens,
             m.part_tokens > 0 ? cat(",\"part_tokens\":", m.part_tokens) : "",
             m.text_bytes ? cat(",\"text_bytes\":", *m.text_bytes) : "",
             bits ? cat(",\"bits_per_byte\":", json_number(*bits)) : "",
             ",\"runtime_seconds\":", json_number(m.elapsed.count()), "}");
}

}  // namespace braid::report
