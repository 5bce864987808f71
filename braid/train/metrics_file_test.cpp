#include "braid/train/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::train {
namespace {

using testing::HasSubstr;

std::string error_of(MetricsFile& file) {
  try {
    file.append("{}");
  } catch (const OutputError& error) {
    return error.what();
  }
  return "";
}

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(MetricsFile, HasEachLineAtOnceAndNothingOfBefore) {
  const ScratchDirectory directory;
  const std::filesystem::path path = directory.write("metrics.jsonl", "old\n");
  MetricsFile file(path);
  EXPECT_EQ(content(path), "");
  file.append("{\"step\": 1}");
  EXPECT_EQ(content(path), "{\"step\": 1}\n");
  file.append("{\"step\": 2}");
  EXPECT_EQ(content(path), "{\"step\": 1}\n{\"step\": 2}\n");
}

TEST(MetricsFile, NoticesThatItWasDeleted) {
  const ScratchDirectory directory;
  std::filesystem::create_directories(directory / "run");
  MetricsFile file(directory / "run" / "metrics.jsonl");
  EXPECT_EQ(error_of(file), "");
  std::filesystem::remove_all(directory / "run");
  EXPECT_THAT(error_of(file), HasSubstr("run/metrics.jsonl: was deleted or replaced"));
}

TEST(MetricsFile, NoticesThatItWasReplaced) {
  const ScratchDirectory directory;
  std::filesystem::create_directories(directory / "run");
  MetricsFile file(directory / "run" / "metrics.jsonl");
  std::filesystem::rename(directory / "run", directory / "moved");
  std::filesystem::create_directories(directory / "run");
  directory.write("run/metrics.jsonl", "");
  EXPECT_THAT(error_of(file), HasSubstr("was deleted or replaced"));
}

TEST(MetricsFile, AFullDiskAndAMissingDirectoryNameTheCure) {
  MetricsFile full("/dev/full");
  EXPECT_THAT(error_of(full), HasSubstr("No space left on device; free some space"));
  const ScratchDirectory directory;
  try {
    MetricsFile absent(directory / "absent" / "metrics.jsonl");
    FAIL();
  } catch (const OutputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory; create the directory first"));
  }
}

}  // namespace
}  // namespace braid::train
