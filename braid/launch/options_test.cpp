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
      {"-n 2 pretrain", "braid launch -n: there is no such option"},
      {"-- pretrain", "braid launch --: there is no such option"},
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
      {"--log_dir a --log-dir b pretrain", "--log_dir is given twice"},
      {"--log_dir", "--log_dir needs a value"},
      {"--log_dir --nnodes 2 pretrain", "--log_dir needs a value"},
      {"--log_dir= pretrain", "--log_dir needs a value"},
  };
  for (const auto& [given, expected] : cases)
    EXPECT_THAT(rejection(words(given)), HasSubstr(expected)) << given;
}

TEST(LaunchOptions, TheMastersAddressIsThatOfOneHost) {
  for (const char* wrong : {"[::1]", "0.0.0.0", "::", "host:29500"}) {
    EXPECT_THROW(check({.master_addr = wrong, .command = {"pretrain"}}), ConfigError) << wrong;
  }
  for (const char* right : {"::1", "fe80::1", "127.0.0.1", "host0"}) {
    EXPECT_NO_THROW(check({.master_addr = right, .command = {"pretrain"}})) << right;
  }
}

}  // namespace
}  // namespace braid::launch
