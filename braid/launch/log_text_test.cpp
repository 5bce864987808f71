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
  EXPECT_EQ(logged("\x1b]0;a title\aone\x1b]8;;http://x\x1b\\ two\n"), "one two\n");
  EXPECT_EQ(logged("\x1b["), "");
}

TEST(LogText, ControlCharactersAreShown) {
  EXPECT_EQ(logged("\x1b not one\n"), "\\x1b not one\n");
  EXPECT_EQ(logged("a\tb\a\x7f\x1b"
                   "c\n"),
            "a\tb\\x07\\x7f\\x1bc\n");
  EXPECT_EQ(logged("\xc3\xa9\n"), "\xc3\xa9\n");
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

}  // namespace
}  // namespace braid::launch
