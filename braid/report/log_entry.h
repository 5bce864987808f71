// An entry of the log that consists of values: the source of the log's line, in its full and its short form,
// and of the scalars in every other destination.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid::report {

/// One value.
struct Metric {
  std::string key{};   ///< as in the full line: PaddleNLP's where it has one
  double value = 0;    ///< times in seconds, memory in GiB
  std::string text{};  ///< as in the full line
};

struct LogEntry {
  int64_t global_step = 0;
  std::vector<Metric> metrics{};
  /// The short line's parts, the most important first: "step 10", "loss 5.1234".
  std::vector<std::string> brief{};
};

/// "loss: 10.49585533, learning_rate: 1e-06, ...": every metric, in PaddleNLP's form.
std::string full_line(const LogEntry& entry);

/// "step 10  loss 5.1234  lr 3e-04": as many parts as fit into `columns`, at least the first; without a
/// limit, all.
std::string short_line(const LogEntry& entry, std::optional<int64_t> columns);

/// The name of a metric's curve, as PaddleNLP names it: "loss" is train/loss, "eval_loss" eval/loss and
/// "test_loss" test/loss. Spaces become underscores and letters small.
std::string curve_name(const Metric& metric);

}  // namespace braid::report
