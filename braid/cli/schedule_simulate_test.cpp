// `braid schedule simulate` and `braid schedule compare`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "braid/base/scratch_directory.h"
#include "braid/cli/schedule_test_support.h"
#include "braid/report/xml_reader.h"
#include "braid/schedule/generators/generate.h"

namespace braid::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::set<std::string> kRowKeys = {
    "schedule",     "pp",          "micro",       "chunks",   "step_time",
    "longest_span", "bubble_rate", "peak_memory", "interval", "interval_without_clipping"};

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

json json_of(const std::string& command, std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const CallResult result = schedule(command, std::move(arguments));
  EXPECT_EQ(result.code, 0) << result.err;
  return json::parse(result.out);
}

TEST(ScheduleSimulate, AcceptsTheLeastLimitThatItsErrorNames) {
  const std::string named = "the least limit that would do is ";
  std::vector<std::string> arguments = {"--mode",   "auto",        "--pp",           "4",  "--micro", "8",
                                        "--memory", "1.3333333,1", "--memory_limit", "0.5"};
  const std::string error = schedule("simulate", arguments).err;
  ASSERT_THAT(error, HasSubstr(named));
  arguments.back() = error.substr(error.find(named) + named.size());
  arguments.back().resize(arguments.back().find_first_not_of("0123456789."));
  EXPECT_EQ(schedule("simulate", arguments).err, "");
}

TEST(ScheduleSimulate, Golden) {
  const CallResult result = schedule("simulate", {"--pp", "2", "--micro", "3", "--times", "1,1,1,0.5"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            "schedule: 1F1B, 2 ranks, 1 chunk each, 3 microbatches\n"
            "step_time: 14\n"
            "interval: 14 with gradient clipping, 14 without\n"
            "bubble_rate: 0.3571\n"
            "peak_memory: 2 1\n");
}

TEST(ScheduleSimulate, JsonHasTheSameNumbers) {
  const json row = json_of("simulate", {"--pp", "2", "--micro", "3", "--times", "1,1,1,0.5"});
  EXPECT_EQ(keys_of(row), kRowKeys);
  EXPECT_EQ(row["schedule"], "1F1B");
  EXPECT_EQ(row["pp"], 2);
  EXPECT_EQ(row["micro"], 3);
  EXPECT_EQ(row["chunks"], 1);
  EXPECT_DOUBLE_EQ(row["step_time"], 14);
  EXPECT_DOUBLE_EQ(row["longest_span"], 14);
  EXPECT_DOUBLE_EQ(row["bubble_rate"], 5.0 / 14);
  EXPECT_EQ(row["peak_memory"], (std::vector<double>{2, 1}));
}

// ZBH2 on 4 ranks: what each exchange costs is what W's in hand save.
TEST(ScheduleSimulate, TakesExchangesAndRunsWeightsBehindThem) {
  const std::vector<std::string> arguments = {
      "--mode", "ZBH2", "--pp", "4", "--micro", "16", "--times", "1.5,1.5,1,0", "--mp_exchange", "0.5,0.5"};
  const json with = json_of("simulate", arguments);
  EXPECT_LT(with["step_time"], with["step_time_without"]);
  EXPECT_GT(with["weights_in_hand"], 16);
  std::vector<std::string> idle = arguments;
  idle.insert(idle.end(), {"--weights_in_hand", "0"});
  const json without = json_of("simulate", idle);
  EXPECT_EQ(without["step_time"], with["step_time_without"]);
  EXPECT_EQ(without["weights_in_hand"], 0);
  EXPECT_EQ(with["peak_memory"], without["peak_memory"]);
  EXPECT_THAT(schedule("simulate", arguments).out, HasSubstr("; without them step_time: "));
  EXPECT_THAT(schedule("compare", {"--mp_exchange", "0.5,0.5"}).out, HasSubstr("  W in hand    without\n"));
  EXPECT_THAT(schedule("show", {"--mode", "ZBH2", "--mp_exchange", "0.5,0.5"}).out,
              HasSubstr(", of which F waits 0.5 for its mp group and I 0.5\n"));
  EXPECT_THAT(schedule("show", {"--mode", "ZBH2", "--mp_exchange", "0.5,0.5", "--csv", "1"}).err,
              HasSubstr("no cells for a W in hand"));
  EXPECT_THAT(schedule("simulate", {"--mp_exchange", "2,0"}).err,
              HasSubstr("--mp_exchange are parts of F and I"));
}

// Reductions that take long make steps longer, by what is not hidden behind other backwards; gathers after
// the update lengthen only the time from step to step.
TEST(ScheduleSimulate, ExchangesOfDataRanksTakeTime) {
  const std::vector<std::string> plain = {"--mode", "1F1B", "--pp", "2", "--micro", "4"};
  const auto with = [&](std::vector<std::string> data) {
    data.insert(data.begin(), plain.begin(), plain.end());
    return json_of("simulate", data);
  };
  const json none = json_of("simulate", plain);
  const json free = with({"--sharding", "stage1"});
  EXPECT_DOUBLE_EQ(free["step_time"], none["step_time"]);
  EXPECT_DOUBLE_EQ(free["interval"], none["interval"]);
  const json gathers = with({"--sharding", "stage1", "--segments", "2", "--sharding_exchange", "3,0"});
  EXPECT_DOUBLE_EQ(gathers["step_time"], none["step_time"]);
  EXPECT_DOUBLE_EQ(gathers["interval"].get<double>(), none["interval"].get<double>() + 3);
  const json reductions = with({"--sharding", "stage1", "--segments", "2", "--sharding_exchange", "0,3"});
  // Of two segments in 1.5 each, the first begins half a backward (1) before the end of a rank's work, and
  // the second when the first has ended: at least 2 of the 3 are left then, and less than all.
  const double longer = reductions["interval"].get<double>() - none["interval"].get<double>();
  EXPECT_GE(longer, 2);
  EXPECT_LT(longer, 3);
  EXPECT_THAT(schedule("show", {"--sharding", "stage3", "--actions"}).out,
              HasSubstr(" WAIT_GATHERs0 GATHERs1 "));
}

// Where updates wait for the norm, all ranks begin a step together; where they do not, ZBH2's bubbles
// overlap.
TEST(ScheduleSimulate, PrintsTheIntervalOfSteps) {
  const json row = json_of("simulate", {"--mode", "ZBH2", "--pp", "4", "--micro", "12"});
  EXPECT_EQ(row["interval"], 39) << "m (F + I + W) + (p - 1) F";
  EXPECT_EQ(row["interval_without_clipping"], 36) << "m (F + I + W)";
  EXPECT_EQ(json_of("simulate", {"--pp", "1025", "--micro", "1025"})["interval"], nullptr);
}

// Source: Qi et al. 2023, arXiv:2401.10241, tables 5 and 9, the 1.5B model with 24 microbatches.
TEST(ScheduleSimulate, AgreesWithPublishedBubbleRates) {
  for (const auto& [mode, rate] : {std::pair("1F1B", "0.2431"), {"ZBH1", "0.1585"}, {"ZBH2", "0.1083"}}) {
    const CallResult result = schedule(
        "simulate", {"--mode", mode, "--pp", "8", "--micro", "24", "--times", "18.522,18.086,9.337,0.601"});
    EXPECT_THAT(result.out, HasSubstr(std::string("\nbubble_rate: ") + rate + "\n")) << mode;
  }
}

TEST(ScheduleSimulate, PrintsMemoryInTheUnitOfTheOption) {
  const json row = json_of(
      "simulate", {"--mode", "VPP", "--pp", "2", "--micro", "4", "--chunks", "2", "--memory", "0.5,0"});
  EXPECT_EQ(row["chunks"], 2);
  const json whole =
      json_of("simulate", {"--mode", "VPP", "--pp", "2", "--micro", "4", "--chunks", "2", "--memory", "1,0"});
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_DOUBLE_EQ(row["peak_memory"][rank].get<double>() * 2, whole["peak_memory"][rank].get<double>());
  }
}

TEST(ScheduleSimulate, ReadsTheFileThatExportWrote) {
  const ScratchDirectory scratch;
  const std::vector<std::string> which = {"--mode", "ZBVPP", "--pp", "3", "--micro", "6"};
  std::vector<std::string> exported = which;
  exported.insert(exported.end(), {"--out", scratch.file("mine.csv")});
  EXPECT_EQ(schedule("export", exported).code, 0);
  json expected = json_of("simulate", which);
  expected["schedule"] = scratch.file("mine.csv");
  // Neither --pp nor --micro: they are the file's.
  EXPECT_EQ(json_of("simulate", {"--mode", "csv:" + scratch.file("mine.csv")}), expected);
}

TEST(ScheduleCompare, ListsEveryModeTheShortestStepFirst) {
  const json rows = json_of("compare", {"--pp", "3", "--micro", "6", "--times", "1,1,0.8,0.05"});
  std::set<std::string> names;
  double before = 0;
  for (const json& row : rows) {
    EXPECT_EQ(keys_of(row), kRowKeys);
    EXPECT_EQ(row["peak_memory"].size(), 3U);
    EXPECT_GE(row["step_time"].get<double>(), before);
    before = row["step_time"];
    const std::string name = row["schedule"];
    names.insert(name.substr(0, name.find(' ')));  // auto adds its choice in brackets
  }
  const std::vector<std::string> modes = schedule::schedule_modes();
  EXPECT_EQ(names, std::set<std::string>(modes.begin(), modes.end()));
}

TEST(ScheduleCompare, SpeedIsThatOf1F1B) {
  const CallResult result = schedule("compare", {"--pp", "2", "--micro", "4"});
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(
      result.out,
      StartsWith("schedule       chunks   step time    speed   bubble  interval  unclipped      peak\n"
                 "InterleavedZB       2        12.5    1.200    4.00%      12.5       12.5         "
                 "2\n"));
  EXPECT_THAT(
      result.out,
      HasSubstr("\n1F1B                1          15    1.000   20.00%        15         15         2\n"));
  // Also if the limit excludes 1F1B.
  const CallResult limited = schedule("compare", {"--pp", "4", "--micro", "8", "--memory_limit", "3"});
  EXPECT_THAT(limited.out, Not(HasSubstr("\n1F1B")));
  EXPECT_THAT(limited.out, Not(HasSubstr(" - ")));
}

TEST(ScheduleCompare, ReportsWhyAModeIsSkipped) {
  const CallResult result = schedule("compare", {"--pp", "3", "--micro", "3"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "skipped: DualPipeV on 3 ranks needs at least 6 microbatches, got 3\n");
  EXPECT_THAT(result.out, Not(HasSubstr("\nDualPipeV")));
  EXPECT_THAT(schedule("compare", {"--pp", "4", "--micro", "8", "--memory_limit", "3"}).err,
              HasSubstr("skipped: 1F1B keeps 4 on rank 0, more than the limit of 3"));
}

TEST(ScheduleCompare, FailsIfEveryModeIsSkipped) {
  const CallResult result = schedule("compare", {"--memory_limit", "0.125"});
  EXPECT_EQ(result.code, kUserErrorExitCode);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("braid schedule compare: no schedule supports this pipeline"));
}

TEST(ScheduleCompare, DrawsBubbleAgainstMemory) {
  for (const std::string memory : {"1,1", "0,0"}) {
    const ScratchDirectory scratch;
    const CallResult result = schedule(
        "compare", {"--pp", "2", "--micro", "4", "--memory", memory, "--out", scratch.file("trade.svg")});
    EXPECT_EQ(result.code, 0) << result.err;
    const auto texts = report::texts_of(report::XmlReader(scratch.read("trade.svg")).read());
    EXPECT_THAT(texts, testing::Contains("Bubble against memory: 2 ranks, 4 microbatches"));
    EXPECT_THAT(texts,
                testing::Contains("peak memory" + std::string(memory == "1,1" ? ", relative to 1F1B" : "")));
  }
}

struct Misuse {
  std::string command;
  std::vector<std::string> arguments;
  std::string error;
};

class ScheduleRejects : public testing::TestWithParam<Misuse> {};

TEST_P(ScheduleRejects, WithItsReason) {
  const CallResult result = schedule(GetParam().command, GetParam().arguments);
  EXPECT_EQ(result.code, kUserErrorExitCode);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("braid schedule " + GetParam().command + ": " + GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Misuses, ScheduleRejects,
    testing::Values(
        Misuse{"simulate",
               {"--memory", "1"},
               "--memory must be 2 numbers (from F to I, from I to W), got 1: '1'"},
        Misuse{"simulate",
               {"--memory", "1,x"},
               "--memory must be 2 numbers between 0 and 1e12, separated by a comma"},
        Misuse{"simulate",
               {"--memory=-1,1"},
               "--memory must be 2 numbers between 0 and 1e12, separated by a comma"},
        Misuse{"simulate", {"--memory_limit", "-1"}, "--memory_limit must be a number, >= 0 and <= 1e+15"},
        Misuse{"simulate", {"--chunks", "2000"}, "--chunks must be a whole number, >= 1 and <= 1024"},
        Misuse{
            "simulate", {"--mode", "V-Half", "--chunks", "3"}, "V-Half runs with 2 chunks per rank, got 3"},
        Misuse{"simulate",
               {"--mode", "ZBH1", "--memory_limit", "2"},
               "ZBH1 keeps 4 on rank 0, more than the limit of 2: raise the limit, or take a schedule"},
        Misuse{"simulate",
               {"--pp", "100000", "--micro", "100000"},
               "--pp 100000 x --micro 100000 x 1 chunk is too large to simulate: the product must be at most "
               "67108864"},
        Misuse{"simulate",
               {"--mode", "ZBVPP", "--memory_limit", "0.5"},
               "ZBVPP cannot keep to the memory limit of 0.5: rank 0 needs 1 for a single microbatch"},
        Misuse{"simulate",
               {"--sharding_exchange", "1,1"},
               "--sharding_exchange applies to a sharding axis: pass --sharding stage1, or omit it"},
        Misuse{"simulate", {"--segments", "2"}, "--segments applies to data ranks: pass --sharding or "},
        Misuse{"draw", {"--update_time", "2"}, "--update_time applies to data ranks: pass --sharding or "},
        Misuse{"draw",
               {"--sharding", "stage1", "--sharding_exchange", "1"},
               "--sharding_exchange must be 2 numbers (all gathers, all reductions), got 1: '1'"},
        Misuse{"draw",
               {"--sharding", "stage1", "--sharding_exchange", "1,-1"},
               "--sharding_exchange must be a time between 0 and 1e12, in the unit of --times; got -1"},
        Misuse{"draw", {"--sharding", "stage4"}, "--sharding must be "},
        Misuse{"show", {"--sharding", "stage1"}, "--sharding and --dp_exchange require --actions: "},
        Misuse{"compare", {"--mode", "1F1B"}, "--mode: there is no such option"},
        Misuse{"compare", {"--chunks", "1"}, "--chunks must be a whole number, >= 2 and <= 1024, got '1'"},
        Misuse{"export",
               {"--pp", "100000", "--micro", "100000"},
               "--pp 100000 x --micro 100000 x 1 chunk is too large to export"},
        Misuse{"export", {"--out", "/no/such/folder/x.csv"}, "/no/such/folder/x.csv"},
        Misuse{"draw",
               {"--pp", "1000", "--micro", "1000"},
               "--pp 1000 x --micro 1000 x 1 chunk is too large to draw: the product must be at most 65536"},
        Misuse{"run", {}, "--times is required: seconds of F, I, W and a message, as in 0.02,0.02"},
        Misuse{"run", {"--emulate", "1,2"}, "--times must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got 2"},
        Misuse{"run", {"--emulate", "1,1,1", "--mode", "1F1B,"}, "there is no pipeline schedule mode \"\""},
        Misuse{"run", {"--emulate", "1,1,1", "--memory", "1"}, "--memory must be 2 numbers"},
        Misuse{"run", {"--emulate", "1,1,1", "--message_bytes", "4"}, "--message_bytes must be"},
        Misuse{"run", {"--emulate", "1,1,1", "--steps", "0"}, "--steps must be"}));

}  // namespace
}  // namespace braid::cli
