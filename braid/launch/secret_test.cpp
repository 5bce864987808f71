#include "braid/launch/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSecret = "0123456789abcdef";

class SecretFile : public testing::Test {
 protected:
  std::string write(const std::string& text, mode_t mode) {
    std::ofstream(path_, std::ios::trunc) << text;
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    return path_;
  }
  static std::string rejection(const std::string& path) {
    try {
      read_secret_file(path);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
  ScratchDirectory dir_;
  std::string path_ = (dir_ / "secret").string();
};

TEST_F(SecretFile, HoldsTheSecretWithoutItsNewline) {
  EXPECT_EQ(read_secret_file(write(std::string(kSecret) + "\n", 0600)), kSecret);
  EXPECT_EQ(read_secret_file(write(kSecret, 0400)), kSecret);
}

TEST_F(SecretFile, OthersMustNotReachIt) {
  for (mode_t mode = 0; mode < 0100; ++mode) {
    write(kSecret, 0600 | mode);
    EXPECT_EQ(rejection(path_) == "accepted", mode == 0) << std::oct << mode;
    if (mode != 0) {
      EXPECT_THAT(rejection(path_), HasSubstr("chmod 600 " + path_));
    }
  }
}

TEST_F(SecretFile, MisuseIsExplainedWithoutTheContents) {
  EXPECT_THAT(rejection((dir_ / "none").string()), HasSubstr("cannot be opened: No such file"));
  EXPECT_THAT(rejection(dir_.path().string()), HasSubstr("is not a file"));
  EXPECT_THAT(rejection("/dev/null"), HasSubstr("is not a file"));
  EXPECT_THAT(rejection(write("0123456789abcde\n", 0600)),
              HasSubstr("a secret of 15 characters; at least 16"));
  EXPECT_THAT(rejection(write("", 0600)), HasSubstr("0 characters"));
  const std::string two_lines = rejection(write("0123456789abcdef\nfedcba9876543210\n", 0600));
  EXPECT_THAT(two_lines, HasSubstr("more than one line"));
  EXPECT_THAT(two_lines, Not(HasSubstr(kSecret)));
}

TEST_F(SecretFile, AnotherUsersFileIsRejected) {
  write(kSecret, 0600);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
    EXPECT_THAT(rejection(path_), HasSubstr("belongs to user 12345, but braid runs as user 0"));
  } else {
    EXPECT_NE(rejection("/etc/shadow"), "accepted");
  }
}

TEST_F(SecretFile, ComesBeforeTheEnvironment) {
  const LaunchOptions options = {.nnodes = 2, .secret_file = write(kSecret, 0600)};
  EXPECT_EQ(choose_secret({{kSecretVariable, "another secret text"}}, options), kSecret);
}

TEST(Secret, IsFreshOnOneNodeAndRequiredOnSeveral) {
  EXPECT_EQ(choose_secret({}, {}).size(), 64u);
  EXPECT_NE(choose_secret({}, {}), choose_secret({}, {}));
  EXPECT_EQ(choose_secret({{kSecretVariable, kSecret}}, {}), kSecret);
  EXPECT_EQ(choose_secret({{kSecretVariable, kSecret}}, {.nnodes = 4}), kSecret);
  try {
    choose_secret({{kSecretVariable, " "}}, {.nnodes = 4});
    FAIL() << "no ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--nnodes 4 needs the run's secret"));
    EXPECT_THAT(error.what(), HasSubstr("openssl rand -hex 32"));
  }
  EXPECT_THROW(choose_secret({{kSecretVariable, "short"}}, {.nnodes = 4}), ConfigError);
}

}  // namespace
}  // namespace braid::launch
