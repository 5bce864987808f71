// The progress of a long operation: a bar on a terminal, otherwise a line from time to time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace braid::cli {

struct ProgressOptions {
  std::string label{};               // the name of the operation
  std::optional<int64_t> columns{};  // of the terminal; nothing: plain lines
  /// The width at this moment, asked before each redraw: people resize terminals. Nothing: it is `columns`.
  std::function<std::optional<int64_t>()> columns_now{};
  std::chrono::milliseconds redraw_interval{100};
  std::chrono::milliseconds line_interval{10'000};  // between plain lines
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// The contents of one bar or line.
struct ProgressState {
  std::string label{};
  std::optional<double> fraction{};  // done, in [0, 1]; nothing: unknown
  std::string text{};                // such as "120 MB/s"
  std::optional<std::chrono::seconds> left{};
};

/// "prepare  42% [#####.....] 120 MB/s eta 0:12", with a bar of 30 characters or as many as fit in
/// `columns`. The last column stays empty because many terminals wrap after it. A UTF-8 character counts as
/// one column.
std::string progress_line(const ProgressState& state, int64_t columns);

/// "prepare: 42%, 120 MB/s, eta 0:12".
std::string progress_plain_line(const ProgressState& state);

/// "0:12", "12:05", "1:02:05".
std::string duration_text(std::chrono::seconds duration);

/// Draws on a stream, which must outlive it. Other output to that stream goes through print.
class ProgressBar {
 public:
  ProgressBar(std::ostream& stream, ProgressOptions options);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Erases the bar if it is shown.
  ~ProgressBar();

  /// Shows that `fraction` of the work is done (nothing: unknown), with a text such as "120 MB/s". Draws only
  /// when the interval of the options has passed, so it may be called often. The remaining time is estimated
  /// from the time since the first call.
  void update(std::optional<double> fraction, std::string_view text);

  /// Prints whole lines (each with its newline) above the bar.
  void print(std::string_view lines);

  /// Removes the bar from the terminal; the next update redraws it.
  void erase();

  /// Leaves the full bar as a line; without a terminal, prints a last plain line if there was one before.
  void finish(std::string_view text);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Begin {
    TimePoint time;
    double fraction = 0;
  };

  std::optional<std::chrono::seconds> time_left(TimePoint now, std::optional<double> fraction) const;

  int64_t width() const;

  std::ostream& stream_;
  ProgressOptions options_;
  TimePoint constructed_;
  std::optional<Begin> begin_;
  std::optional<TimePoint> last_shown_;
  std::string shown_;  // the bar on the terminal; empty: none
};

}  // namespace braid::cli
