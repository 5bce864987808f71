#include "braid/cli/run_record.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "braid/base/scratch_directory.h"

namespace braid::cli {
namespace {

class Record : public testing::Test {
 protected:
  Record() {
    options_.output_dir = folder_.path().string();
    options_.bf16 = true;
    run_.training.max_steps = 20;
    run_.strategy.mesh = {.mp = 1, .sharding = 1, .pp = 2, .dp = 1};
  }
  RunFacts facts() {
    return {.options = options_,
            .run = run_,
            .model = model_,
            .world = {.world_size = 2, .local_world_size = 2},
            .hosts = {"here"},
            .fingerprints = {{"data", "sha256:0"}},
            .cores = 3};
  }
  nlohmann::json read() const { return nlohmann::json::parse(folder_.read("run.json")); }

  ScratchDirectory folder_;
  config::PretrainOptions options_;
  config::RunOptions run_;
  config::ModelConfig model_;
};

TEST_F(Record, SaysWhatIsKnownAtTheStart) {
  const RunRecord record(facts());
  const nlohmann::json json = read();
  EXPECT_EQ(json["state"], "running");
  EXPECT_TRUE(json["ended"].is_null());
  EXPECT_EQ(json["options"]["bf16"], true);
  EXPECT_EQ(json["options"]["output_dir"], folder_.path().string());
  EXPECT_EQ(json["strategy"]["pp"], 2);
  EXPECT_EQ(json["strategy"]["schedule"], "1F1B");
  EXPECT_EQ(json["seed"], 42);
  EXPECT_EQ(json["machine"]["cores"], 3);
  EXPECT_EQ(json["machine"]["ranks"], 2);
  EXPECT_EQ(json["machine"]["hosts"], nlohmann::json({"here"}));
  EXPECT_GT(json["machine"]["memory_bytes"].get<int64_t>(), 1 << 20);
  EXPECT_EQ(json["fingerprints"]["data"], "sha256:0");
  EXPECT_TRUE(json["build"]["features"].contains("gloo"));
  EXPECT_THAT(json["started"].get<std::string>(),
              testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+[+-][0-9]+"));
}

TEST_F(Record, KeepsBestAndFinalLosses) {
  RunRecord record(facts());
  record.note_loss("train", 1, std::numeric_limits<double>::quiet_NaN());
  record.note_loss("train", 2, 2.5);
  record.note_loss("train", 3, 2.0);
  record.note_loss("train", 4, 3.0);
  record.note_loss("eval", 4, 3.5);
  EXPECT_EQ(read()["state"], "running") << "a killed run is recognised";
  record.finish("failed", "the disk is full");
  const nlohmann::json json = read();
  EXPECT_EQ(json["state"], "failed");
  EXPECT_EQ(json["reason"], "the disk is full");
  EXPECT_FALSE(json["ended"].is_null());
  EXPECT_EQ(json["steps"], 4);
  EXPECT_EQ(json["losses"]["train"]["best"], nlohmann::json({{"global_step", 3}, {"loss", 2.0}}));
  EXPECT_EQ(json["losses"]["train"]["final"], nlohmann::json({{"global_step", 4}, {"loss", 3.0}}));
  EXPECT_EQ(json["losses"]["eval"]["final"]["loss"], 3.5);
}

}  // namespace
}  // namespace braid::cli
