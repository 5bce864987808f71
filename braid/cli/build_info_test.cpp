#include "braid/cli/build_info.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "braid/config/file_value.h"

namespace braid::cli {
namespace {

bool is_built_in(const BuildInfo& info, const std::string& name) {
  const auto found = std::find_if(info.features.begin(), info.features.end(),
                                  [&](const BuildFeature& feature) { return feature.name == name; });
  EXPECT_NE(found, info.features.end()) << name;
  return found != info.features.end() && found->is_built_in;
}

TEST(BuildInfo, ListsEveryOptionalPartOnceInOrder) {
  const BuildInfo info = build_info();
  for (const char* name : {"cuda", "gloo", "highway", "sentencepiece", "yaml", "zlib"})
    is_built_in(info, name);
  EXPECT_TRUE(std::is_sorted(info.features.begin(), info.features.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  EXPECT_THAT(info.libtorch, testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(info.compiler, testing::MatchesRegex("(GCC|Clang) [0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_FALSE(info.build_type.empty());
}

TEST(BuildInfo, SaysWhatTheProgramCanDo) { EXPECT_EQ(is_built_in(build_info(), "yaml"), config::has_yaml()); }

}  // namespace
}  // namespace braid::cli
