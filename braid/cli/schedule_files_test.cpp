// `braid schedule export`, `braid schedule draw`, and the rejection of invalid files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/scratch_directory.h"
#include "braid/cli/schedule_test_support.h"
#include "braid/report/xml_reader.h"
#include "braid/schedule/generators/generate.h"

namespace braid::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ScheduleExport, Golden) {
  const CallResult result = schedule("export", {"--mode", "ZBH1", "--pp", "2", "--micro", "3"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
            "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
}

TEST(ScheduleExport, WritesTheSameToAFileAndReadsItBack) {
  for (const std::string& mode : schedule::schedule_modes()) {
    SCOPED_TRACE(mode);
    const ScratchDirectory scratch;
    const std::vector<std::string> which = {"--mode", mode, "--pp", "3", "--micro", "6"};
    const std::string printed = schedule("export", which).out;
    std::vector<std::string> to_file = which;
    to_file.insert(to_file.end(), {"--out", scratch.file("mine.csv")});
    EXPECT_EQ(schedule("export", to_file).out, "");
    EXPECT_EQ(scratch.read("mine.csv"), printed);
    EXPECT_EQ(schedule("export", {"--mode", "csv:" + scratch.file("mine.csv")}).out, printed);
  }
}

TEST(ScheduleDraw, WritesWellFormedSvg) {
  const ScratchDirectory scratch;
  const std::vector<std::string> which = {"--mode", "ZBVPP", "--pp", "2", "--micro", "3"};
  const std::string printed = schedule("draw", which).out;
  EXPECT_THAT(printed, StartsWith("<?xml "));
  const auto elements = report::XmlReader(printed).read();
  EXPECT_EQ(elements.front().name, "svg");
  // F, I and W of 2 chunks on 2 ranks, with tooltips.
  size_t actions = 0;
  for (const report::TippedBox& box : report::tipped_boxes(elements)) {
    actions += box.tip.find(" chunk ") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(actions, 2U * 3 * 3 * 2);
  std::vector<std::string> to_file = which;
  to_file.insert(to_file.end(), {"--out", scratch.file("mine.svg")});
  EXPECT_EQ(schedule("draw", to_file).out, "");
  EXPECT_EQ(scratch.read("mine.svg"), printed);
}

TEST(ScheduleOutput, AnExistingFileIsReplacedOnlyOnRequest) {
  for (const char* command : {"export", "draw", "compare"}) {
    SCOPED_TRACE(command);
    const ScratchDirectory scratch;
    const std::string file = scratch.write("mine", "precious");
    const CallResult rejected = schedule(command, {"--out", file});
    EXPECT_EQ(rejected.code, kUserErrorExitCode);
    EXPECT_EQ(rejected.out, "");
    EXPECT_EQ(rejected.err, "braid schedule " + std::string(command) + ": --out " + file +
                                " exists: name another file, or pass --overwrite 1 to replace it\n");
    EXPECT_EQ(scratch.read("mine"), "precious");
    EXPECT_EQ(schedule(command, {"--out", file, "--overwrite", "1"}).code, 0);
    EXPECT_NE(scratch.read("mine"), "precious");
  }
}

TEST(ScheduleDraw, DrawsWhatDataRanksExchange) {
  const std::vector<std::string> plain = {"--mode", "ZBH1", "--pp", "2", "--micro", "4"};
  const auto tips_of = [&](std::vector<std::string> data) {
    data.insert(data.begin(), plain.begin(), plain.end());
    const CallResult result = schedule("draw", data);
    EXPECT_EQ(result.err, "");
    std::vector<std::string> tips;
    for (const auto& box : report::tipped_boxes(report::XmlReader(result.out).read()))
      tips.push_back(box.tip);
    return tips;
  };
  const auto count = [](const std::vector<std::string>& tips, std::string_view beginning) {
    return std::ranges::count_if(tips, [&](const std::string& tip) { return tip.starts_with(beginning); });
  };
  const auto stage1 = tips_of(
      {"--sharding", "stage1", "--sharding_exchange", "1,2", "--segments", "2", "--update_time", "1"});
  EXPECT_EQ(count(stage1, "GATHER segment"), 2 * 2);
  EXPECT_EQ(count(stage1, "REDUCE segment"), 2 * 2);
  EXPECT_EQ(count(stage1, "UPDATE segment"), 2 * 2);
  EXPECT_THAT(stage1, testing::Contains(HasSubstr("waiting for REDUCE segment 0, ")));
  const auto stage2 = tips_of({"--sharding", "stage2", "--sharding_exchange", "1,2", "--segments", "2"});
  EXPECT_EQ(count(stage2, "REDUCE segment"), 2 * 2 * 4) << "after each microbatch";
  EXPECT_EQ(count(tips_of({"--sharding", "stage2", "--sharding_exchange", "1,2", "--segments", "2",
                           "--sharding_reduce", "step"}),
                  "REDUCE segment"),
            2 * 2);
  const auto dp = tips_of({"--dp_exchange", "1"});
  EXPECT_EQ(count(dp, "REDUCE_DP segment"), 2 * 4);
  EXPECT_EQ(count(dp, "GATHER"), 0);
}

struct Damage {
  std::string text;
  std::string error;
};

class ScheduleFileRejected : public testing::TestWithParam<Damage> {};

// By every command, and before run starts processes (this program is not braid and cannot be started).
TEST_P(ScheduleFileRejected, WithItsReason) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("mine.csv", GetParam().text);
  for (const std::string command : {"show", "simulate", "export", "draw", "run"}) {
    std::vector<std::string> arguments = {"--mode", "csv:" + path};
    if (command == "run") arguments.insert(arguments.end(), {"--emulate", "1,1,1"});
    const CallResult result = schedule(command, arguments);
    EXPECT_EQ(result.code, kUserErrorExitCode);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("braid schedule " + command + ": schedule " + path));
    EXPECT_THAT(result.err, HasSubstr(GetParam().error));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Damages, ScheduleFileRejected,
    testing::Values(
        Damage{"0F0,0X0\n", ", row 1, cell 2 (\"0X0\"): write stage, type and microbatch"},
        Damage{"0F0,0B0\n1F0,1SEND_B0\n", ", row 2, cell 2 (\"1SEND_B0\"): give compute actions (PyTorch"},
        Damage{"0F0,0B0\n0F0,0B0\n", ", row 2, cell 1 (\"0F0\"): stage 0 is in row 1, cell 1 too"},
        Damage{"\n", " has no rows: write one per rank"},
        Damage{"0F0,0F1,0B1,0B0\n", "weight gradients must add up in ascending order"},
        Damage{"0B0,0F0\n", "rank 0, position "}));

TEST(ScheduleFile, KeepsToTheMemoryLimit) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("mine.csv", "0F0,0F1,0B0,0B1\n");
  EXPECT_EQ(schedule("simulate", {"--mode", "csv:" + path, "--memory_limit", "2"}).code, 0);
  EXPECT_THAT(schedule("simulate", {"--mode", "csv:" + path, "--memory_limit", "1.5"}).err,
              HasSubstr("keeps 2 on rank 0, more than the limit of 1.5"));
}

TEST(ScheduleRun, RejectsSchedulesWithDifferentRanks) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("mine.csv", "0F0,0B0\n");
  EXPECT_THAT(schedule("run", {"--mode", "1F1B,csv:" + path, "--pp", "2", "--emulate", "1,1,1"}).err,
              HasSubstr("--mode: 1F1B has 2 ranks, but " + path + " has 1: schedules that run together"));
}

}  // namespace
}  // namespace braid::cli
