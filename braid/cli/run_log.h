// The log of a run on one stream: lines, and a progress bar below them where a terminal shows rank 0.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "braid/cli/progress_bar.h"
#include "braid/cli/run.h"
#include "braid/config/options.h"
#include "braid/report/step_metrics.h"

namespace braid::cli {

/// How lines look: in full, "[2026-11-30 14:05:09,123] [    INFO] - loss: 5.12345678, ...", as PaddleNLP
/// writes them; or short, "14:05:09 step 10  loss 5.1235  ...", no wider than the terminal. With log_format
/// auto, short on a terminal and full elsewhere: `braid launch` shows rank 0's short lines and logs its full
/// ones. All functions may be called from any thread.
class RunLog {
 public:
  RunLog(const CommandContext& context, const config::PretrainOptions& options, int rank);

  void line(const std::string& text);
  void entry(const report::LogEntry& entry);
  /// After every step, for the bar.
  void step(const report::StepMetrics& metrics, int64_t max_steps);

 private:
  void print(const std::string& full, const std::string& brief);
  std::optional<int64_t> columns() const;

  std::mutex mutex_;
  std::ostream& out_;
  std::function<std::optional<int64_t>()> columns_now_;
  bool is_terminal_ = false;
  bool is_short_ = false;
  bool has_log_elsewhere_ = false;
  std::unique_ptr<ProgressBar> bar_;
};

/// `text` broken at spaces into lines of at most `columns`, the second and later ones indented; words longer
/// than that stay whole.
std::string wrapped(std::string_view text, int64_t columns, int64_t indent);

}  // namespace braid::cli
