#include "braid/cli/run_log.h"

#include <gmock/gmock.h>

#include <sstream>

#include "braid/launch/log_text.h"

namespace braid::cli {
namespace {

using testing::MatchesRegex;

const report::LogEntry kEntry = {.global_step = 10,
                                 .metrics = {{.key = "loss", .value = 5.25, .text = "5.25000000"}},
                                 .brief = {"step 10", "loss 5.2500", std::string(80, 'x')}};
constexpr const char* kFull = "\\[[0-9-]+ [0-9:]+,[0-9]+\\] \\[    INFO\\] - loss: 5.25000000\n";
constexpr const char* kShort = "[0-9][0-9]:[0-9][0-9]:[0-9][0-9] step 10  loss 5.2500\n";

struct Stage {
  std::string log_format = "auto";
  std::optional<int64_t> columns{};
  std::map<std::string, std::string> environment{};
};

std::string printed(const Stage& stage, const std::function<void(RunLog&)>& print) {
  std::ostringstream out, err;
  const CommandContext context = {
      .environment = stage.environment, .out = out, .err = err, .out_columns = stage.columns};
  RunLog log(context, {.log_format = stage.log_format}, 0);
  print(log);
  return out.str();
}

std::string printed(const Stage& stage) {
  return printed(stage, [](RunLog& log) { log.entry(kEntry); });
}

TEST(RunLog, IsShortOnATerminalAndFullElsewhere) {
  EXPECT_THAT(printed({}), MatchesRegex(kFull));
  EXPECT_THAT(printed({.columns = 80}), MatchesRegex(kShort));
  EXPECT_THAT(printed({.log_format = "full", .columns = 80}), MatchesRegex(kFull));
  EXPECT_THAT(printed({.log_format = "short"}), MatchesRegex("[0-9:]+ step 10  loss 5.2500  x+\n"))
      << "nothing limits a file's lines";
}

TEST(RunLog, BehindTheLauncherTheTerminalIsShortAndTheLogFull) {
  const Stage launched = {.columns = 80, .environment = {{"BRAID_PROGRESS", "1"}}};
  const std::string bytes = printed(launched);
  EXPECT_THAT(launch::LogText().take(bytes), MatchesRegex(kFull));
  EXPECT_THAT(launch::ShownText().take(bytes), MatchesRegex(kShort));
  Stage both = launched;
  both.log_format = "short";
  EXPECT_THAT(launch::LogText().take(printed(both)), MatchesRegex(kShort));
}

TEST(RunLog, OtherLinesAreWrappedToTheTerminal) {
  const auto line = [](RunLog& log) { log.line("a line of several words that is long"); };
  EXPECT_THAT(printed({.columns = 30}, line),
              MatchesRegex("[0-9:]+ a line of several\n         words that is long\n"));
  EXPECT_THAT(printed({}, line), testing::HasSubstr(" - a line of several words that is long\n"));
}

TEST(Wrapped, BreaksAtSpacesOnly) {
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one two", 7, 2), "one two");
  EXPECT_EQ(wrapped("a/path/that/is/long and more", 8, 2), "a/path/that/is/long\n  and\n  more");
  EXPECT_EQ(wrapped("", 8, 2), "");
  EXPECT_EQ(wrapped("word", 1, 9), "word");
  EXPECT_EQ(wrapped("12:00:00    indented words", 20, 2), "12:00:00    indented\n  words");
}

TEST(RunLog, TheBarFollowsTheTerminal) {
  std::ostringstream out, err;
  int64_t columns = 60;
  CommandContext context = {.out = out, .err = err, .out_columns = columns};
  context.columns_now = [&](int) { return columns; };
  RunLog log(context, {}, 0);
  columns = 20;
  log.step({.global_step = 1, .loss = 5, .tokens = 10, .elapsed = std::chrono::seconds(1)}, 2);
  EXPECT_EQ(out.str(), "\r\033[Ktrain  50% step 1/2");
}

}  // namespace
}  // namespace braid::cli
