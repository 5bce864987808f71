#include "braid/cli/run_log.h"

#include <unistd.h>

#include <chrono>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/launch/log_text.h"
#include "braid/report/destination.h"

namespace braid::cli {
namespace {

constexpr int64_t kClockColumns = 9;  // "14:05:09 "

struct Prefixes {
  std::string full;   // "[2026-11-30 14:05:09,123] [    INFO] - ", as PaddleNLP's logger writes it
  std::string brief;  // "14:05:09 "
};

Prefixes prefixes_now() {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::string padded = cat(1000 + millis).substr(1);
  return {.full = cat("[", report::local_time_text(now, "%Y-%m-%d %H:%M:%S"), ",", padded, "] [    INFO] - "),
          .brief = report::local_time_text(now, "%H:%M:%S ")};
}

}  // namespace

std::string wrapped(std::string_view text, int64_t columns, int64_t indent) {
  std::string out;
  const std::string margin(static_cast<size_t>(indent), ' ');
  const auto room = static_cast<size_t>(std::max<int64_t>(columns - indent, 1));
  size_t width = static_cast<size_t>(std::max<int64_t>(columns, 1));
  while (text.size() > width) {
    size_t cut = text.rfind(' ', width);
    // Spaces at the beginning align the line; a break there would leave an empty one.
    if (cut == std::string_view::npos || text.find_first_not_of(' ') > cut) {
      cut = text.find(' ', std::max(width, std::min(text.find_first_not_of(' '), text.size())));
      if (cut == std::string_view::npos) break;
    }
    out += cat(text.substr(0, cut), "\n", margin);
    text.remove_prefix(cut + 1);
    width = room;
  }
  return out += text;
}

RunLog::RunLog(const CommandContext& context, const config::PretrainOptions& options, int rank)
    : out_(context.out) {
  is_terminal_ = context.out_columns.has_value();
  columns_now_ = [fixed = context.out_columns, now = context.columns_now]() {
    const auto current = now ? now(STDOUT_FILENO) : std::nullopt;
    return current ? current : fixed;
  };
  is_short_ = options.log_format == "short" || (options.log_format == "auto" && is_terminal_);
  has_log_elsewhere_ = options.log_format == "auto" && lookup(context, "BRAID_PROGRESS") == "1";
  if (is_terminal_ && rank == 0 && !options.disable_tqdm) {
    bar_ = std::make_unique<ProgressBar>(
        out_, ProgressOptions{.label = "train", .columns = context.out_columns, .columns_now = columns_now_});
  }
}

std::optional<int64_t> RunLog::columns() const { return is_terminal_ ? columns_now_() : std::nullopt; }

void RunLog::print(const std::string& full, const std::string& brief) {
  std::string text = is_short_ ? brief : full;
  if (is_short_ && has_log_elsewhere_) text = launch::with_log_line(brief, full);
  text += '\n';
  if (bar_) {
    bar_->print(text);
  } else {
    out_ << text << std::flush;
  }
}

void RunLog::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const Prefixes prefix = prefixes_now();
  const auto width = columns();
  const std::string whole = prefix.brief + text;
  print(prefix.full + text, width ? wrapped(whole, *width, kClockColumns) : whole);
}

void RunLog::entry(const report::LogEntry& entry) {
  const std::lock_guard lock(mutex_);
  const Prefixes prefix = prefixes_now();
  const auto width = columns();
  const auto room = width ? std::optional(*width - kClockColumns) : std::nullopt;
  print(prefix.full + report::full_line(entry), prefix.brief + report::short_line(entry, room));
}

void RunLog::step(const report::StepMetrics& metrics, int64_t max_steps) {
  const std::lock_guard lock(mutex_);
  if (!bar_) return;
  const double done = static_cast<double>(metrics.global_step) / static_cast<double>(max_steps);
  const double rate = static_cast<double>(metrics.tokens) / metrics.elapsed.count();
  bar_->update(done, cat("step ", metrics.global_step, "/", max_steps, " loss ", fixed(metrics.loss, 4), " ",
                         fixed(rate, 0), " tokens/s"));
}

}  // namespace braid::cli
