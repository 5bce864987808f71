// docs/options.md equals the option table.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "braid/config/pretrain_table.h"

namespace braid::config {
namespace {

TEST(OptionsDocument, EqualsTheTable) {
  const auto path =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "docs" / "options.md";
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(text == options_markdown())
      << path << " is out of date: run build/braid pretrain --help_markdown > docs/options.md";
}

}  // namespace
}  // namespace braid::config
