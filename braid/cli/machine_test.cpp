#include "braid/cli/machine.h"

#include <gtest/gtest.h>

namespace braid::cli {
namespace {

TEST(Cores, FollowTheQuotaOfAControlGroup) {
  EXPECT_EQ(cores_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2) << "rounded up";
  EXPECT_EQ(cores_of_quota("1000 100000"), 1);
  for (const char* text : {"max 100000", "", "200000", "-1 100000", "1 0", "1 2 3"}) {
    EXPECT_EQ(cores_of_quota(text), std::nullopt) << text;
  }
  EXPECT_GE(usable_cores(), 1);
}

TEST(ProgramPath, IsTheRunningProgram) {
  EXPECT_EQ(program_path().filename(), std::filesystem::path("braid_cli_test"));
}

}  // namespace
}  // namespace braid::cli
