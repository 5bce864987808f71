#include "braid/cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace braid::cli {
namespace {

// A descriptor that is not a terminal.
class Pipe {
 public:
  Pipe() { created_ = ::pipe(ends_.data()) == 0; }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool created() const { return created_; }
  int descriptor() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool created_ = false;
};

TEST(TerminalColumns, APipeIsNoTerminalUnlessTheLauncherSetsTheVariables) {
  const Pipe pipe;
  ASSERT_TRUE(pipe.created());
  EXPECT_EQ(terminal_columns(pipe.descriptor(), {}), std::nullopt);
  EXPECT_EQ(terminal_columns(pipe.descriptor(), {{"COLUMNS", "132"}}), std::nullopt);
  EXPECT_EQ(terminal_columns(pipe.descriptor(), {{"BRAID_PROGRESS", "1"}, {"COLUMNS", "132"}}), 132);
  EXPECT_EQ(terminal_columns(pipe.descriptor(), {{"BRAID_PROGRESS", "1"}}), 80);
  EXPECT_EQ(terminal_columns(pipe.descriptor(), {{"BRAID_PROGRESS", "1"}, {"COLUMNS", "-3"}}), 80);
  EXPECT_EQ(terminal_columns(pipe.descriptor(), {{"BRAID_PROGRESS", "1"}, {"TERM", "dumb"}}), std::nullopt);
}

TEST(AllowsColours, UnlessDisabled) {
  EXPECT_TRUE(allows_colours({}));
  EXPECT_TRUE(allows_colours({{"TERM", "xterm"}, {"NO_COLOR", ""}}));
  EXPECT_FALSE(allows_colours({{"NO_COLOR", "1"}}));
  EXPECT_FALSE(allows_colours({{"TERM", "dumb"}}));
}

}  // namespace
}  // namespace braid::cli
