// How far a long piece of work is, on a terminal as a bar, elsewhere as a line now and then.
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
  std::string label{};               // what the work is called
  std::optional<int64_t> columns{};  // of the terminal; nothing: plain lines
  std::chrono::milliseconds redraw_interval{100};
  std::chrono::milliseconds line_interval{10'000};  // between plain lines
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// What one drawing shows.
struct ProgressState {
  std::string label{};
  std::optional<double> fraction{};  // done, in [0, 1]; nothing: unknown
  std::string text{};                // such as "120 MB/s"
  std::optional<std::chrono::seconds> left{};
};

/// "prepare  42% [#####.....] 120 MB/s eta 0:12", with a bar of 30 characters or what `columns` leave free.
/// One column stays empty, where many terminals would begin a new line. UTF-8 counts one column a character.
std::string progress_line(const ProgressState& state, int64_t columns);

/// "prepare: 42%, 120 MB/s, eta 0:12".
std::string progress_plain_line(const ProgressState& state);

/// "0:12", "12:05", "1:02:05".
std::string duration_text(std::chrono::seconds duration);

/// Draws on a stream, which must outlive it. To print something else there meanwhile, use print.
class ProgressBar {
 public:
  ProgressBar(std::ostream& stream, ProgressOptions options);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Erases the bar if it still stands.
  ~ProgressBar();

  /// Shows that `fraction` of the work is done (nothing: unknown), with a text such as "120 MB/s". Draws only
  /// where the intervals of the options have passed, so it may be called often. What is left is estimated
  /// from the time since the first call.
  void update(std::optional<double> fraction, std::string_view text);

  /// Prints whole lines (each with its newline) above the bar.
  void print(std::string_view lines);

  /// Takes the bar off the terminal; the next update brings it back.
  void erase();

  /// Leaves the bar, full, as a line; a plain line says the same if any was printed before.
  void finish(std::string_view text);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Begin {
    TimePoint time;
    double fraction = 0;
  };

  std::optional<std::chrono::seconds> time_left(TimePoint now, std::optional<double> fraction) const;

  std::ostream& stream_;
  ProgressOptions options_;
  TimePoint constructed_;
  std::optional<Begin> begin_;
  std::optional<TimePoint> last_shown_;
  std::string standing_;  // the bar that stands on the terminal; empty: none
};

}  // namespace braid::cli
