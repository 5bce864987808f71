// Metrics of training steps and evaluations, as log lines and as JSON objects.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid::report {

/// Device memory of one rank, in bytes.
struct RankMemory {
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t max_allocated_bytes = 0;
  int64_t max_reserved_bytes = 0;
  bool operator==(const RankMemory&) const = default;
};

/// One optimizer step.
struct StepMetrics {
  int64_t global_step = 0;
  double loss = 0;  ///< mean over the step's tokens, in nats
  double learning_rate = 0;
  double grad_norm = 0;              ///< before clipping
  int64_t tokens = 0;                ///< that contributed to the loss
  bool skipped = false;              ///< no weight was updated, because gradients of 16 bits overflowed
  std::optional<double> loss_scale;  ///< in float16
  std::chrono::duration<double> elapsed{0};
  double gemm_share = 0;           ///< of `elapsed`, on this rank, in matrix products
  std::vector<RankMemory> memory;  ///< of every rank, in rank order
};

/// The sum of the steps since the last log line.
struct IntervalMetrics {
  double loss = 0;  ///< mean over the interval's steps
  double learning_rate = 0;
  double grad_norm = 0;  ///< of the last step
  int64_t global_step = 0;
  int64_t max_steps = 0;
  int64_t steps = 0;    ///< in the interval
  int64_t samples = 0;  ///< in the interval, over all ranks
  int64_t tokens = 0;   ///< in the interval, over all ranks
  double flops = 0;     ///< in the interval, over all ranks
  int64_t ranks = 1;
  std::chrono::duration<double> elapsed{0};
  double gemm_share = 0;
  RankMemory memory;  ///< of the rank that prints
};

/// "loss: 10.49585533, learning_rate: 1e-06, global_step: 1, current_memory_allocated: 0.44, ...":
/// PaddleNLP's keys in its order, then braid's own (grad_norm, gemm_share, eta). Memory in GiB, TFLOP/s in
/// units of 10^12.
std::string log_line(const IntervalMetrics& metrics);

/// One line of metrics.jsonl, without the newline. Numbers read back exactly; NaN and infinities are written
/// as null.
std::string to_json(const StepMetrics& metrics);

/// The same for an evaluation: {"type":"eval","global_step":20,"eval_loss":...}.
struct EvalMetrics {
  std::string part = "eval";  ///< "eval" or "test"
  int64_t global_step = 0;
  double loss = 0;
  int64_t tokens = 0;  ///< whose loss was evaluated
  int64_t samples = 0;
  int64_t part_tokens = 0;            ///< of the whole part; 0 if that has no meaning
  std::optional<int64_t> text_bytes;  ///< that `tokens` stand for, if known
  std::chrono::duration<double> elapsed{0};
};

/// loss * tokens / text_bytes in bits: comparable between tokenizers, unlike a loss or perplexity per token.
/// Nothing where text_bytes is not known or 0.
std::optional<double> bits_per_byte(const EvalMetrics& metrics);
std::string log_line(const EvalMetrics& metrics);
std::string to_json(const EvalMetrics& metrics);

/// "0:07", "12:34", "1:02:03".
std::string clock_text(std::chrono::duration<double> elapsed);

}  // namespace braid::report
