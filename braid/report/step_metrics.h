// Metrics of training steps and evaluations, as log lines and as JSON objects.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/report/log_entry.h"

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

/// PaddleNLP's keys in its order (loss, learning_rate, global_step, ...), then braid's own (grad_norm,
/// gemm_share, eta). Memory in GiB, TFLOP/s in units of 10^12.
LogEntry log_entry(const IntervalMetrics& metrics);

/// One line of metrics.jsonl, without the newline. Numbers read back exactly; NaN and infinities are written
/// as null.
std::string to_json(const StepMetrics& metrics);

/// The same for an evaluation: {"type":"eval","global_step":20,"eval_loss":...}.
struct EvalMetrics {
  std::string part = "eval";  ///< "eval" or "test"
  int64_t global_step = 0;
  double loss = 0;
  int64_t tokens = 0;
  int64_t samples = 0;
  std::chrono::duration<double> elapsed{0};
};
LogEntry log_entry(const EvalMetrics& metrics);
std::string to_json(const EvalMetrics& metrics);

/// A whole training.
struct TrainingMetrics {
  int64_t steps = 0;
  double loss = 0;      ///< mean over all steps
  int64_t samples = 0;  ///< over all ranks
  int64_t tokens = 0;   ///< that contributed to the loss, over all ranks
  int64_t ranks = 1;
  std::chrono::duration<double> elapsed{0};    ///< with evaluations
  std::chrono::duration<double> step_time{0};  ///< the sum of the steps' times
};
/// The last entry: PaddleNLP's train_runtime and so on, and the throughput of all steps.
LogEntry log_entry(const TrainingMetrics& metrics);

/// "0:07", "12:34", "1:02:03".
std::string clock_text(std::chrono::duration<double> elapsed);

}  // namespace braid::report
