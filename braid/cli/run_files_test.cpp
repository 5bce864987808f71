#include "braid/cli/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RunFiles, AreAllThatTheOptionsName) {
  const ScratchDirectory scratch;
  for (const char* name : {"data/a.idx", "data/a.bin", "data/a.meta.json", "data/b.idx", "data/b.bin",
                           "data/notes", "model/config.json", "model/model.safetensors", "model/README",
                           "tokenizer.model", "strategy.json", "schedule.csv", "times.json"}) {
    scratch.write(name, name);
  }
  config::PretrainOptions options;
  options.input_dir = scratch.file("data");
  options.model_name_or_path = scratch.file("model");
  options.tokenizer_name_or_path = scratch.file("tokenizer.model");
  options.strategy = scratch.file("strategy.json");
  options.pipeline_schedule_mode = "csv:" + scratch.file("schedule.csv");
  options.schedule_times = "file:" + scratch.file("times.json");
  EXPECT_THAT(files_of(options), ElementsAre(scratch.file("data/a.bin"), scratch.file("data/a.idx"),
                                             scratch.file("data/a.meta.json"), scratch.file("data/b.bin"),
                                             scratch.file("data/b.idx"), scratch.file("model/config.json"),
                                             scratch.file("model/model.safetensors"),
                                             scratch.file("schedule.csv"), scratch.file("strategy.json"),
                                             scratch.file("times.json"), scratch.file("tokenizer.model")));

  options = {};
  options.model_name_or_path = "braid/llama-tiny";
  options.tokenizer_name_or_path = "byte";
  options.synthetic_data = true;
  EXPECT_TRUE(files_of(options).empty());
  options.synthetic_data = false;
  options.input_dir = cat("0.3 ", scratch.file("data/a"), " 0.7 ", scratch.file("data/b"));
  EXPECT_EQ(files_of(options).size(), 5u);
  options.input_dir = scratch.file("elsewhere");
  EXPECT_THAT(files_of(options), ElementsAre(scratch.file("elsewhere")));
}

TEST(RunFiles, ContentsTellFilesApartAndNameWhatCannotBeRead) {
  const ScratchDirectory scratch;
  const std::vector<comm::FileContent> contents =
      contents_of({scratch.write("a", "abc"), scratch.write("b", "abd"), scratch.file("absent")});
  EXPECT_EQ(contents[0].content, "sha256:ba7816bf8f01cfea414140de5dae2223 (3 bytes)");
  EXPECT_NE(contents[1].content, contents[0].content);
  EXPECT_THAT(contents[2].content, HasSubstr("unreadable (cannot read "));
  EXPECT_THAT(contents[2].content, HasSubstr("No such file"));
}

}  // namespace
}  // namespace braid::cli
