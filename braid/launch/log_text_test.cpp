#include "braid/launch/log_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::launch {
namespace {

// The log of `bytes`, the same however they are cut into two reads.
std::string logged(const std::string& bytes) {
  std::string whole;
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    LogText text;
    std::string got = text.take(bytes.substr(0, cut));
    got += text.take(bytes.substr(cut));
    got += text.finish();
    if (cut == 0) whole = got;
    EXPECT_EQ(got, whole) << "cut at " << cut;
  }
  return whole;
}

TEST(LogText, PlainLinesStayAsTheyAre) {
  EXPECT_EQ(logged("one\n\ntwo\n"), "one\n\ntwo\n");
  EXPECT_EQ(logged(""), "");
  EXPECT_EQ(logged("unfinished"), "unfinished\n");
}

TEST(LogText, OfARedrawnLineTheLastDrawingStays) {
  EXPECT_EQ(logged("step 1\rstep 2\rstep 3\nloss\n"), "step 3\nloss\n");
  EXPECT_EQ(logged("50%\r\x1b[Kloss 10.5\n100%\r"), "loss 10.5\n100%\n");
  EXPECT_EQ(logged("100%\r\x1b[K"), "");
}

TEST(LogText, ACarriageReturnBeforeTheNewlineEndsTheLine) { EXPECT_EQ(logged("a\r\nb\r\r\n"), "a\nb\n"); }

TEST(LogText, ColoursAreDropped) {
  EXPECT_EQ(logged("\x1b[1;31merror\x1b[0m: [x]\n"), "error: [x]\n");
  EXPECT_EQ(logged("\x1b not one\n\x1b["), "\x1b not one\n");
}

TEST(LogText, ALongLineIsPassedOnInPieces) {
  const std::string line(3 * LogText::kLongestLine, 'x');
  LogText text;
  std::string got;
  for (size_t i = 0; i < line.size(); i += 1000) got += text.take(std::string_view(line).substr(i, 1000));
  EXPECT_GT(got.size(), line.size() - LogText::kLongestLine - 1000);
  got += text.take("\nnext\n");
  EXPECT_EQ(got, line + "\nnext\n");
}

TEST(LogText, KeepsTheLastLines) {
  LogText text;
  std::string all;
  for (int i = 0; i < 100; ++i) all += std::to_string(i) + "\n";
  EXPECT_EQ(text.take(all), all);
  EXPECT_EQ(text.last_lines().size(), LogText::kLastLines);
  EXPECT_EQ(text.last_lines().front(), "80");
  EXPECT_EQ(text.last_lines().back(), "99");
}

// What a terminal gets and what the log gets, of bytes that arrive in any pieces.
TEST(WithLogLine, TheTerminalSeesOneTextAndTheLogTheOther) {
  const std::string bytes = "before\n\r\x1b[K" + with_log_line("short\n  second line", "the full line") +
                            "\nbar 10%\r\x1b[Kafter\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    LogText log;
    ShownText terminal;
    std::string logged, shown;
    for (size_t i = 0; i < bytes.size(); i += piece) {
      logged += log.take(std::string_view(bytes).substr(i, piece));
      shown += terminal.take(std::string_view(bytes).substr(i, piece));
    }
    EXPECT_EQ(logged + log.finish(), "before\nthe full line\nafter\n") << piece;
    EXPECT_EQ(shown + terminal.finish(), "before\n\r\x1b[Kshort\n  second line\nbar 10%\r\x1b[Kafter\n")
        << piece;
  }
}

TEST(ShownText, WithholdsNothingElse) {
  ShownText terminal;
  EXPECT_EQ(terminal.take("colours \x1b[1m\x1b"), "colours \x1b[1m") << "may be the beginning of a command";
  EXPECT_EQ(terminal.take("[0m"), "\x1b[0m");
  EXPECT_EQ(terminal.take("\x1b_braid:unfinished"), "");
  EXPECT_EQ(terminal.finish(), "\x1b_braid:unfinished");
}

}  // namespace
}  // namespace braid::launch
