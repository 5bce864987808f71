#include "braid/cli/schedule_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/scratch_directory.h"
#include "braid/cli/schedule_test_support.h"

namespace braid::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

CallResult show(std::vector<std::string> arguments, const CallOptions& options = {}) {
  arguments.insert(arguments.begin(), {"schedule", "show"});
  return call(std::move(arguments), options);
}

TEST(ScheduleShow, Golden) {
  const CallResult result =
      show({"--mode", "1F1B", "--pp", "2", "--micro", "3", "--times", "1,1.5,0.5,0.25"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            "1F1B: 2 ranks, 3 microbatches\n"
            "\n"
            "slot    0         5         10\n"
            "rank 0 |F0F1····[B0]F2[B1]··[B2]|\n"
            "rank 1 |··F0[B0]F1[B1]F2[B2]····|\n"
            "\n"
            "F forward, [B] backward, · idle; the number is the microbatch\n"
            "12 slots in all; bubble 25.0% (3 of 12); peak live activations per rank: 2 1\n"
            "step time 13, bubble 30.8% with F 1, I 1.5, W 0.5, message 0.25\n"
            "6 messages per step, at most 2 of one rank in flight\n");
}

TEST(ScheduleShow, AcceptsTheOptionNamesOfPretrain) {
  const CallResult own = show({"--mode", "FThenB", "--pp", "3", "--micro", "2"});
  EXPECT_EQ(own.code, 0);
  EXPECT_EQ(show({"--pipeline_schedule_mode", "FThenB", "--pipeline_parallel_degree", "3",
                  "--gradient_accumulation_steps", "2"})
                .out,
            own.out);
  EXPECT_THAT(own.out, Not(HasSubstr("step time"))) << "the drawing contains it for equal slots";
  EXPECT_THAT(show({"--pp", "1", "--micro", "1"}).out, HasSubstr("no messages\n"));
}

TEST(ScheduleShow, ListsActionsWithMessages) {
  const CallResult result = show({"--pp", "2", "--micro", "1", "--actions"});
  EXPECT_EQ(result.out,
            "1F1B\n"
            "rank 0: F0 SEND_F0 RECV_B0 B0 WAIT_SEND_F0 NORM WAIT_NORM UPDATE\n"
            "rank 1: RECV_F0 F0 B0 SEND_B0 WAIT_SEND_B0 NORM WAIT_NORM UPDATE\n"
            "step time 6, bubble 50.0% with F 1, I 1, W 1, message 0\n"
            "2 messages per step, at most 1 of one rank in flight\n");
  EXPECT_NE(show({"--pp", "2", "--micro", "4", "--actions"}).out,
            show({"--pp", "2", "--micro", "4", "--actions", "--enable_send_recv_overlap"}).out);
}

TEST(ScheduleShow, TakesTimesOfEachStage) {
  const ScratchDirectory scratch;
  const std::string stage = R"({"forward": 1, "backward_input": 1, "backward_weight": 1})";
  const std::string path =
      scratch.write("times.json", R"({"stages": [)" + stage + ", " + stage + R"(], "communication": 0.25})");
  EXPECT_THAT(show({"--pp", "2", "--micro", "1", "--times", "file:" + path}).out,
              HasSubstr("\nstep time 6.5, bubble 53.8% with per-stage times\n"));
  EXPECT_EQ(show({"--pp", "3", "--times", "file:" + path}).code, kUserErrorExitCode);
}

TEST(ScheduleShow, PrintsCsvAndNothingElse) {
  EXPECT_EQ(show({"--pp", "2", "--micro", "1", "--csv"}).out, "0F0,0B0\n1F0,1B0\n");
}

TEST(ScheduleShow, PrintsEverythingAsJson) {
  const CallResult result = show({"--pp", "2", "--micro", "1", "--times", "1,1,1,0.25", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(
      result.out,
      R"({"schedule":"1F1B","pp":2,"micro":1,"chunks":1,"step_time":6.5,"bubble_rate":0.5384615384615384,)"
      R"("peak_live_activations":[1,1],"messages":2,"peak_outstanding_sends":[1,1],)"
      R"("actions":[["F0","B0"],["F0","B0"]]})"
      "\n");
  EXPECT_THAT(show({"--pp", "2", "--micro", "1", "--json", "--actions"}).out, HasSubstr("\"SEND_F0\""));
  EXPECT_THAT(show({"--json", "--columns", "50"}).err, HasSubstr("--columns applies to the drawing"));
  EXPECT_THAT(show({"--json", "--csv"}).err, HasSubstr("--json and --csv are mutually exclusive"));
}

TEST(ScheduleShow, ColoursOnATerminalOnly) {
  const std::vector<std::string> arguments = {"--pp", "2", "--micro", "2"};
  EXPECT_THAT(show(arguments).out, Not(HasSubstr("\033[")));
  EXPECT_THAT(show(arguments, {.out_columns = 80}).out, HasSubstr("\033["));
  EXPECT_EQ(show(arguments, {.environment = {{"NO_COLOR", "1"}}, .out_columns = 80}).out,
            show(arguments).out);
  EXPECT_EQ(show(arguments, {.out_columns = 5}).code, 0) << "a narrow terminal is not an error";
}

struct Misuse {
  std::vector<std::string> arguments;
  std::string error;
};

class ScheduleShowRejects : public testing::TestWithParam<Misuse> {};

TEST_P(ScheduleShowRejects, WithItsReason) {
  const CallResult result = show(GetParam().arguments);
  EXPECT_EQ(result.code, kUserErrorExitCode);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("braid schedule show: " + GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Misuses, ScheduleShowRejects,
    testing::Values(
        Misuse{{"--mode", "ZBH1", "--chunks", "2"}, "ZBH1 runs with 1 chunk per rank, got 2"},
        Misuse{{"--mode", "csv:"}, "--mode csv: needs a file name, as in csv:schedule.csv"},
        Misuse{{"--mode", "csv:no/such.csv"}, "--mode csv:no/such.csv: 'no/such.csv' does not exist"},
        Misuse{{"--mode", "1f1c"}, "there is no pipeline schedule mode \"1f1c\": did you mean 1F1B?"},
        Misuse{{"--pp", "0"}, "--pp must be a whole number, >= 1, got '0'"},
        Misuse{{"--micro", "many"}, "--micro must be a whole number, >= 1, got 'many'"},
        Misuse{{"--pp", "9999999999"}, "the number 9999999999 is too large"},
        Misuse{{"--pp", "100000", "--micro", "100000"},
               "--pp 100000 x --micro 100000 x 1 chunk is too large to show: the product must be at most "
               "262144"},
        Misuse{{"--times", "1,2"}, "--times must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got 2: '1,2'"},
        Misuse{{"--times", "1,2,x"}, "--times must be 3 or 4 comma-separated numbers >= 0"},
        Misuse{{"--times=1,-2,1"}, "--times must be 3 or 4 comma-separated numbers >= 0"},
        Misuse{{"--times", "1,inf,1"}, "--times must be 3 or 4 comma-separated numbers >= 0"},
        Misuse{{"--csv", "--actions"}, "--actions and --csv are mutually exclusive"},
        Misuse{{"--csv", "--times", "1,1,1"}, "--times has no effect on CSV output"},
        Misuse{{"--csv", "--columns", "80"}, "--columns applies to the drawing"},
        Misuse{{"--enable_send_recv_overlap"}, "--enable_send_recv_overlap requires --actions"},
        Misuse{{"--columns", "10"}, "--columns must be a whole number, >= 40, got '10'"},
        Misuse{{"--micr", "8"}, "--micr: there is no such option; did you mean micro?"},
        Misuse{{"4", "8"}, "2 errors:\n  unexpected argument '4'"}));

}  // namespace
}  // namespace braid::cli
