#include "braid/cli/progress_bar.h"

#include <gtest/gtest.h>

#include <sstream>

namespace braid::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ProgressLine, FitsTheTerminal) {
  const ProgressState state = {.label = "prepare", .fraction = 0.42, .text = "120 MB/s", .left = seconds(12)};
  EXPECT_EQ(progress_line(state, 100), "prepare  42% [############..................] 120 MB/s eta 0:12");
  EXPECT_EQ(progress_line(state, 44), "prepare  42% [####......] 120 MB/s eta 0:12");
  EXPECT_EQ(progress_line(state, 39), "prepare  42% [##...] 120 MB/s eta 0:12");
  EXPECT_EQ(progress_line(state, 38), "prepare  42% 120 MB/s eta 0:12") << "no room for a bar";
  EXPECT_EQ(progress_line(state, 20), "prepare  42% 120 MB");
  EXPECT_EQ(progress_line(state, 1), "");
  EXPECT_EQ(progress_line(state, 0), "");
}

TEST(ProgressLine, EndsAndUnknowns) {
  EXPECT_EQ(progress_line({.label = "x", .fraction = 0.0}, 20), "x   0% [..........]");
  EXPECT_EQ(progress_line({.label = "x", .fraction = 1.0}, 20), "x 100% [##########]");
  EXPECT_EQ(progress_line({.label = "x", .fraction = 0.9999}, 15), "x  99% [####.]");
  EXPECT_EQ(progress_line({.label = "x", .fraction = 7.0}, 15), "x 100% [#####]");
  EXPECT_EQ(progress_line({.label = "x", .text = "reading"}, 80), "x reading");
  EXPECT_EQ(progress_line({.label = "Größe", .text = "√"}, 8), "Größe √") << "cut between characters";
  EXPECT_EQ(progress_line({.label = "Größe", .text = "√"}, 5), "Größ");
}

TEST(ProgressPlainLine, HasTheSameParts) {
  EXPECT_EQ(progress_plain_line({.label = "prepare", .fraction = 0.42, .text = "9 MB/s", .left = seconds(5)}),
            "prepare: 42%, 9 MB/s, eta 0:05");
  EXPECT_EQ(progress_plain_line({.label = "tokenizer", .text = "learning"}), "tokenizer: learning");
}

TEST(DurationText, HasHoursIfNeeded) {
  EXPECT_EQ(duration_text(seconds(0)), "0:00");
  EXPECT_EQ(duration_text(seconds(725)), "12:05");
  EXPECT_EQ(duration_text(seconds(3725)), "1:02:05");
  EXPECT_EQ(duration_text(seconds(360000)), "100:00:00");
  EXPECT_EQ(duration_text(seconds(-3)), "0:00");
}

// A bar on a clock that the test moves.
class Bar : public testing::Test {
 protected:
  ProgressOptions options(std::optional<int64_t> columns) {
    return {.label = "work", .columns = columns, .now = [this] { return now_; }};
  }
  // What was printed since the last call.
  std::string printed() {
    std::string text = stream_.str();
    stream_.str("");
    return text;
  }
  std::chrono::steady_clock::time_point now_{};
  std::ostringstream stream_;
};

TEST_F(Bar, RedrawsAtMostTenTimesASecond) {
  ProgressBar bar(stream_, options(24));
  bar.update(0.0, "a");
  EXPECT_EQ(printed(), "\r\033[Kwork   0% [.........] a");
  int64_t redraws = 0;
  for (int i = 1; i <= 1000; ++i) {
    now_ += milliseconds(1);
    bar.update(i / 1000.0, "a");
    redraws += printed().empty() ? 0 : 1;
  }
  EXPECT_EQ(redraws, 10);
}

TEST_F(Bar, FollowsAResizedTerminal) {
  std::optional<int64_t> columns = 24;
  ProgressOptions resized = options(24);
  resized.columns_now = [&] { return columns; };
  ProgressBar bar(stream_, resized);
  bar.update(0.0, "a");
  EXPECT_EQ(printed(), "\r\033[Kwork   0% [.........] a");
  columns = 20;
  now_ += seconds(1);
  bar.update(0.0, "a");
  EXPECT_EQ(printed(), "\r\033[Kwork   0% [.....] a");
  columns = std::nullopt;  // cannot be asked any more
  bar.finish("a");
  EXPECT_EQ(printed(), "\r\033[Kwork 100% [#########] a\n");
}

TEST_F(Bar, EstimatesTheRemainingTimeFromTheFirstUpdate) {
  now_ += seconds(100);
  ProgressBar bar(stream_, options(60));
  bar.update(0.5, "");
  now_ += seconds(10);
  bar.update(0.6, "");
  printed();
  now_ += seconds(10);
  bar.update(0.7, "");
  EXPECT_NE(printed().find(" eta 0:30"), std::string::npos);
}

TEST_F(Bar, PrintsLinesAboveTheBar) {
  ProgressBar bar(stream_, options(20));
  bar.print("before\n");
  EXPECT_EQ(printed(), "before\n");
  bar.update(0.5, "");
  const std::string shown = "work  50% [###....]";
  EXPECT_EQ(printed().substr(4), "work  50% [###....]");
  bar.print("a line\n");
  EXPECT_EQ(printed(), "\r\033[Ka line\n" + shown);
}

TEST_F(Bar, EndsAsALineOrVanishes) {
  {
    ProgressBar bar(stream_, options(20));
    bar.update(0.5, "");
    printed();
    bar.finish("");
    EXPECT_EQ(printed(), "\r\033[Kwork 100% [#######]\n");
  }
  EXPECT_EQ(printed(), "") << "nothing to erase";
  {
    ProgressBar bar(stream_, options(20));
    bar.update(0.5, "");
    printed();
  }
  EXPECT_EQ(printed(), "\r\033[K") << "an error message that follows begins on an empty line";
}

TEST_F(Bar, WithoutATerminalALineEveryTenSeconds) {
  ProgressBar bar(stream_, options(std::nullopt));
  std::string all;
  for (int i = 0; i < 250; ++i) {
    bar.update(i / 250.0, "5 MB/s");
    now_ += milliseconds(100);
    all += printed();
  }
  EXPECT_EQ(all, "work: 40%, 5 MB/s, eta 0:15\nwork: 80%, 5 MB/s, eta 0:05\n");
  bar.erase();
  EXPECT_EQ(printed(), "");
  bar.finish("5 MB/s");
  EXPECT_EQ(printed(), "work: 100%, 5 MB/s\n");
}

TEST_F(Bar, ShortWorkWithoutATerminalPrintsNothing) {
  ProgressBar bar(stream_, options(std::nullopt));
  bar.update(0.5, "");
  bar.finish("");
  EXPECT_EQ(printed(), "");
}

}  // namespace
}  // namespace braid::cli
