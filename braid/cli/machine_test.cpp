#include "braid/cli/machine.h"

#include <gtest/gtest.h>

namespace braid::cli {
namespace {

TEST(ProgramPath, IsTheRunningProgram) {
  EXPECT_EQ(program_path().filename(), std::filesystem::path("braid_cli_test"));
}

}  // namespace
}  // namespace braid::cli
