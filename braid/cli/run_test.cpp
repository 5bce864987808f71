#include "braid/cli/run.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <system_error>

#include "braid/base/error.h"
#include "braid/cli/test_context.h"

namespace braid::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Run, WithoutArgumentsOrWithHelpPrintsTheOverview) {
  const CallResult help = call({"help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  EXPECT_THAT(help.out,
              AllOf(StartsWith("braid "), HasSubstr("\nUsage: braid COMMAND [ARGUMENTS]\n"),
                    HasSubstr("\n  pretrain   train a model"), HasSubstr("\n  launch     start"),
                    HasSubstr("\n  generate   continue"), HasSubstr("\n  data       train tokenizers"),
                    HasSubstr("\n  schedule   draw"), HasSubstr("\nExamples:\n  braid data prepare")));
  for (const char* word : {"--help", "-h"}) {
    EXPECT_EQ(call({word}).out, help.out) << word;
    EXPECT_EQ(call({word}).code, 0) << word;
  }
  const CallResult alone = call({});
  EXPECT_EQ(alone.code, kUserErrorExitCode);
  EXPECT_EQ(alone.out, help.out);
}

TEST(Run, EveryCommandHasHelp) {
  const std::vector<std::vector<std::string>> commands = {
      {"pretrain"},        {"launch"},          {"generate"},        {"data", "tokenizer"},
      {"data", "prepare"}, {"data", "inspect"}, {"schedule", "show"}};
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> words = command;
    words.push_back("--help");
    const CallResult result = call(words);
    std::string name = "braid";
    for (const std::string& word : command) name += " " + word;
    EXPECT_EQ(result.code, 0) << name;
    EXPECT_EQ(result.err, "") << name;
    EXPECT_THAT(result.out, AllOf(StartsWith("Usage: " + name + " "), HasSubstr("  --"))) << name;
    words.pop_back();
    words.insert(words.begin(), "help");
    EXPECT_EQ(call(words).out, result.out) << "help before the command prints the same: " << name;
  }
}

TEST(Run, GroupsHaveHelp) {
  for (const char* group : {"data", "schedule"}) {
    const std::string usage = std::string("\nUsage: braid ") + group + " COMMAND";
    EXPECT_THAT(call({group, "--help"}).out, HasSubstr(usage));
    EXPECT_EQ(call({group, "--help"}).code, 0);
    EXPECT_EQ(call({group}).code, kUserErrorExitCode);
    EXPECT_THAT(call({"help", group}).out, HasSubstr(usage));
  }
}

TEST(Run, PrintsItsVersion) {
  EXPECT_THAT(call({"--version"}).out,
              AllOf(testing::ContainsRegex("^braid [0-9]+\\.[0-9]+\\.[0-9]+\nlibtorch [0-9.]+, "),
                    HasSubstr("\nwith: "), HasSubstr("\nwithout: "), HasSubstr("cuda")));
  EXPECT_EQ(call({"version"}).out, call({"--version"}).out);
  EXPECT_EQ(call({"--version"}).code, 0);
}

struct Misuse {
  std::vector<std::string> arguments;
  std::string error;  // the whole of it
};

class RunRejects : public testing::TestWithParam<Misuse> {};

TEST_P(RunRejects, WithOneClearMessage) {
  const CallResult result = call(GetParam().arguments);
  EXPECT_EQ(result.code, kUserErrorExitCode);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, GetParam().error + "\n");
}

INSTANTIATE_TEST_SUITE_P(
    Commands, RunRejects,
    testing::Values(
        Misuse{{"pretrian"}, "braid: unknown command 'pretrian'; did you mean pretrain?"},
        Misuse{{"frobnicate"}, "braid: unknown command 'frobnicate'; --help lists the commands"},
        Misuse{{"help", "dta"}, "braid: unknown command 'dta'; did you mean data?"},
        Misuse{{"--pp", "4"},
               "braid: expected a command before options, got '--pp'; --help lists the commands"},
        Misuse{{"--hlep"}, "braid: expected a command before options, got '--hlep'; did you mean --help?"},
        Misuse{
            {"launch", "run_pretrain.py", "--max_steps", "5"},
            "braid launch: 'run_pretrain.py' is a Python script; braid's command in its place is pretrain"},
        Misuse{{"data", "prepar"}, "braid data: unknown command 'prepar'; did you mean prepare?"},
        Misuse{
            {"schedule", "--mode", "1F1B"},
            "braid schedule: expected a command before options, got '--mode'; --help lists the commands"}));

INSTANTIATE_TEST_SUITE_P(
    Launch, RunRejects,
    testing::Values(
        Misuse{{"launch", "--nproc_per_node", "2", "pretrian"},
               "braid launch: unknown command 'pretrian'; did you mean pretrain?"},
        Misuse{{"launch"},
               "braid launch has nothing to run: add a command after the options, as in braid launch "
               "--nproc_per_node 2 pretrain ..."},
        Misuse{{"launch", "launch", "pretrain"},
               "braid launch: launch cannot launch itself; name another command, as in braid launch "
               "--nproc_per_node 2 pretrain ..."},
        Misuse{{"launch", "--nproc_per_node", "0", "pretrain"},
               "braid launch: --nproc_per_node must be a whole number, >= 1 and <= 256, got '0'"}));

TEST(Launch, RunsTheProgramOncePerRankAndReturnsItsExitCode) {
  // The program of `call` is /bin/false.
  const CallResult result = call({"launch", "--nproc_per_node", "2", "pretrain", "--max_steps", "1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("ranks 0 to 1 of 2"), HasSubstr("OMP_NUM_THREADS=1 (2 cores)"),
                                HasSubstr("failed with exit code 1")));
}

struct Reported {
  int code = 0;
  std::string text{};
};

template <typename Error>
Reported reported(const Error& error) {
  std::ostringstream err;
  try {
    throw error;
  } catch (...) {
    const int code = report_exception("braid x", err);
    return {code, err.str()};
  }
}

TEST(ReportException, NamesTheCommandAndReturnsTheExitCode) {
  for (const Reported& result :
       {reported(ConfigError("wrong")), reported(ShapeError("wrong")), reported(DataError("wrong"))}) {
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.text, "braid x: wrong\n");
  }
  EXPECT_EQ(reported(CommError("rank 1 left")).code, 76);
  EXPECT_EQ(reported(CommError("rank 1 left")).text, "braid x: rank 1 left\n");
  const auto lost = c10::DistStoreError({__func__, __FILE__, 0}, "the connection was closed");
  EXPECT_EQ(reported(lost).code, 76);
  EXPECT_EQ(reported(lost).text, "braid x: libtorch: the connection was closed\n");
  EXPECT_EQ(reported(std::bad_alloc()).code, 71);
  EXPECT_EQ(reported(std::bad_alloc()).text, "braid x: out of memory\n");
  const auto system = std::system_error(EMFILE, std::generic_category(), "pipe");
  EXPECT_EQ(reported(system).code, 71);
  EXPECT_EQ(reported(system).text, "braid x: pipe: Too many open files\n");
}

TEST(ReportException, AdmitsBugs) {
  for (const Reported& result :
       {reported(InternalError("odd")), reported(std::out_of_range("odd")), reported(42)}) {
    EXPECT_EQ(result.code, 70);
    EXPECT_THAT(result.text, AllOf(StartsWith("braid x: "), HasSubstr("This is a bug in braid")));
  }
}

TEST(ReportException, OmitsLibtorchsBacktrace) {
  std::ostringstream err;
  try {
    TORCH_CHECK(false, "shapes disagree");
  } catch (...) {
    EXPECT_EQ(report_exception("braid x", err), 70);
  }
  EXPECT_THAT(err.str(), AllOf(StartsWith("braid x: libtorch: shapes disagree\n"), Not(HasSubstr("frame #")),
                               HasSubstr("This is a bug in braid")));
}

}  // namespace
}  // namespace braid::cli
