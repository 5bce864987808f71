// Selects the part of a rank's output that goes into its log: whole lines, without the redraws of a progress
// bar.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace braid::launch {

/// Turns raw bytes into log lines. Of a line redrawn with carriage returns, only the last version stays;
/// terminal control sequences (colours, erasing) are dropped; all else is kept byte for byte. Holds at most
/// kLongestLine bytes of an unfinished line: a longer one is emitted in pieces.
class LogText {
 public:
  static constexpr size_t kLongestLine = size_t{64} << 10;
  static constexpr size_t kLastLines = 20;

  /// The text that `bytes` completes, ready to be appended to the log.
  std::string take(std::string_view bytes);

  /// The unfinished last line, if any, terminated with a newline.
  std::string finish();

  /// The last kLastLines lines, oldest first, each truncated to 1000 bytes.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void end_line(std::string& out);

  std::string line_;  // since the last newline or effective carriage return
  bool redraw_ =
      false;  // after a carriage return: the next byte decides whether it ended or restarts the line
  bool in_long_line_ = false;  // the beginning of this line was already emitted
  std::deque<std::string> last_lines_;
};

/// What a rank writes in place of `shown`, one or several lines, if a launcher is to show that on a terminal
/// and the line `logged` in the log (both without the last newline): `logged` in an application program
/// command (ECMA-48, section 8.3.2), which LogText takes and ShownText removes.
std::string with_log_line(std::string_view shown, std::string_view logged);

/// The bytes that a terminal gets of a rank's output: all but what with_log_line added for the log.
class ShownText {
 public:
  std::string take(std::string_view bytes);
  /// What is left at the end: an unfinished command, shown as it is.
  std::string finish();

 private:
  std::string held_;  // what may be the beginning of such a command
};

}  // namespace braid::launch
