#include "braid/launch/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::launch {
namespace {

using testing::HasSubstr;

std::vector<std::string> words(std::string_view text) { return split(text, ' '); }

std::string rejection(const std::vector<std::string>& given) {
  try {
    parse_launch_options(given);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(LaunchOptions, EveryOptionReachesItsField) {
  const auto options =
      parse_launch_options(words("--nproc_per_node 2 --gpus 3,1 --nnodes 4 --node_rank 3 --master_addr host0 "
                                 "--master_port 1234 --secret_file secret --log_dir logs "
                                 "pretrain --max_steps 5 --log_dir other"));
  EXPECT_EQ(options, (LaunchOptions{.nproc_per_node = 2,
                                    .gpus = "3,1",
                                    .nnodes = 4,
                                    .node_rank = 3,
                                    .master_addr = "host0",
                                    .master_port = 1234,
                                    .secret_file = "secret",
                                    .log_dir = "logs",
                                    .command = {"pretrain", "--max_steps", "5", "--log_dir", "other"}}));
}

TEST(LaunchOptions, DashesEqualSignsAndDevicesAreAccepted) {
  EXPECT_EQ(parse_launch_options(words("--nproc-per-node=3 pretrain"))->nproc_per_node, 3);
  EXPECT_EQ(device_numbers(*parse_launch_options({"--devices", "0, 2", "pretrain"})),
            (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(parse_launch_options({"--log-dir", "a-b", "pretrain", "--log-dir"})->log_dir, "a-b");
}

TEST(LaunchOptions, APaddleLaunchLineIsUnderstood) {
  const auto options = parse_launch_options(
      words("--devices 0,1 --nnodes 2 --rank 1 --master 10.0.0.1:8090 --job_id llama --log_level INFO "
            "--max_restart 3 --run_mode collective --log_dir log pretrain run.json"));
  EXPECT_EQ(options->node_rank, 1);
  EXPECT_EQ(options->master_addr, "10.0.0.1");
  EXPECT_EQ(options->master_port, 8090);
  EXPECT_EQ(options->unused, (std::vector<std::string>{"--job_id llama", "--log_level INFO",
                                                       "--max_restart 3", "--run_mode collective"}));
  EXPECT_EQ(options->command, (std::vector<std::string>{"pretrain", "run.json"}));
}

TEST(LaunchOptions, HelpNamesEveryOption) {
  EXPECT_EQ(parse_launch_options(words("--help")), std::nullopt);
  EXPECT_EQ(parse_launch_options(words("--nnodes 1 -h")), std::nullopt);
  for (const char* name : {"--nproc_per_node", "--gpus", "--devices", "--nnodes", "--node_rank",
                           "--master_addr", "--master_port", "--secret_file", "--log_dir"}) {
    EXPECT_THAT(launch_help(), HasSubstr(name));
  }
}

TEST(LaunchOptions, RanksPerNodeComeFromEitherOption) {
  EXPECT_EQ(ranks_per_node({}), 1);
  EXPECT_EQ(ranks_per_node({.nproc_per_node = 8}), 8);
  EXPECT_EQ(ranks_per_node({.gpus = "5,6,7"}), 3);
}

TEST(LaunchOptions, MoreDevicesThanAllowedRanksAreRejected) {
  std::string list = "0";
  for (int i = 1; i <= kMaxRanksPerNode; ++i) list += "," + std::to_string(i);
  EXPECT_THAT(rejection({"--gpus", list, "pretrain"}), HasSubstr("--gpus lists 257 devices"));
}

TEST(LaunchOptions, MisuseIsExplained) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--nproc_per_node 2", "nothing to run"},
      {"--nproc_per_nod 2 pretrain", "did you mean nproc_per_node?"},
      {"--max_steps 2 pretrain", "Options of the command go after it"},
      {"-n 2 pretrain", "-n: there is no such option"},
      {"-- pretrain", "--: there is no such option"},
      {"--nproc_per_node two pretrain",
       "--nproc_per_node must be a whole number, >= 1 and <= 256, got 'two'"},
      {"--nproc_per_node 0 pretrain", ">= 1 and <= 256, got '0'"},
      {"--nproc_per_node 257 pretrain", ">= 1 and <= 256, got '257'"},
      {"--nproc_per_node 4 --gpus 0,1 pretrain", "--nproc_per_node 4 and --gpus 0,1 (2 devices) disagree"},
      {"--gpus 0,0 pretrain", "lists a device twice"},
      {"--gpus 0,x pretrain", "--gpus must be comma-separated device numbers"},
      {"--devices -1 pretrain", "must be comma-separated device numbers"},
      {"--gpus 0 --devices 1 pretrain", "is given twice"},
      {"--nnodes 1:4 pretrain", "--nnodes must be a whole number"},
      {"--nnodes 0 pretrain", "--nnodes must be a whole number, >= 1"},
      {"--nnodes 65537 pretrain", "<= 65536, got '65537'"},
      {"--nnodes 2 --master_addr a pretrain", "--nnodes 2 needs --node_rank on every node: 0 to 1"},
      {"--nnodes 2 --node_rank 0 pretrain", "--nnodes 2 needs --master_addr"},
      {"--nnodes 2 --node_rank 2 --master_addr a pretrain",
       "--node_rank must be in [0, 1] with --nnodes 2, got 2"},
      {"--node_rank 1 pretrain", "--node_rank must be in [0, 0] with --nnodes 1, got 1"},
      {"--node_rank -1 pretrain", "--node_rank must be a whole number, >= 0, got '-1'"},
      {"--master_port 0 pretrain", ">= 1 and <= 65535, got '0'"},
      {"--master_port 65536 pretrain", ">= 1 and <= 65535, got '65536'"},
      {"--master_addr host:29500 pretrain", "pass the host as --master_addr and the port as --master_port"},
      {"--log_dir a --log-dir b pretrain", "--log-dir is given twice"},
      {"--master host pretrain", "--master must be HOST:PORT"},
      {"--nnodes 2 --rank 0 --master a:1 --master_addr b pretrain", "say the same; pass only one"},
      {"--ips 10.0.0.1,10.0.0.2 pretrain", "does not support lists of nodes (use --nnodes"},
      {"--run_mode ps pretrain", "does not support parameter servers"},
      {"--nproc_per_node x --nnodes 0 --log_dirr a pretrain",
       "3 errors:\n  --log_dirr: there is no such option; did you mean log_dir?"},
      {"--log_dir", "--log_dir needs a value"},
      {"--log_dir --nnodes 2 pretrain", "--log_dir needs a value"},
      {"--log_dir= pretrain", "--log_dir needs a value"},
  };
  for (const auto& [given, expected] : cases)
    EXPECT_THAT(rejection(words(given)), HasSubstr(expected)) << given;
}

}  // namespace
}  // namespace braid::launch
