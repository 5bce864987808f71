// What of a rank's output goes into its log: whole lines, without the redraws of a progress bar.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace braid::launch {

/// Turns raw bytes into log lines. Of a line redrawn with carriage returns only the last drawing stays;
/// terminal control sequences (colours, erasing) are dropped; all else is kept byte for byte. Holds at most
/// kLongestLine bytes of an unfinished line: a longer one is passed on in pieces.
class LogText {
 public:
  static constexpr size_t kLongestLine = size_t{64} << 10;
  static constexpr size_t kLastLines = 20;

  /// The text that `bytes` completes, ready to be appended to the log.
  std::string take(std::string_view bytes);

  /// The unfinished last line, if any, ended with a newline.
  std::string finish();

  /// The last kLastLines lines, oldest first, each cut at 1000 bytes.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void end_line(std::string& out);

  std::string line_;  // since the last newline or effective carriage return
  bool redraw_ =
      false;  // a carriage return came; the next byte decides whether it ended the line or restarts it
  bool in_long_line_ = false;  // the beginning of this line is already passed on
  std::deque<std::string> last_lines_;
};

}  // namespace braid::launch
