#include "braid/base/output_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string rejection(const std::string& path) {
  try {
    const OutputLock lock(path, "--output_dir out", "a second");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OutputLock, ASecondHolderIsRejectedAndToldWhoTheFirstIs) {
  const ScratchDirectory scratch;
  const std::string path = scratch.file("lock");
  {
    const OutputLock lock(path, "--output_dir out", "braid pretrain");
    EXPECT_FALSE(lock.missing());
    EXPECT_THAT(output_lock_holder(path).value_or(""), HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_THAT(rejection(path),
                AllOf(HasSubstr("--output_dir out is in use: process " + std::to_string(::getpid()) + " on "),
                      HasSubstr("started 2"), HasSubstr("(braid pretrain)"), HasSubstr(path)));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(output_lock_holder(path));
  EXPECT_EQ(rejection(path), "accepted");
}

TEST(OutputLock, OfManyThatStartAtOnceOneWins) {
  const ScratchDirectory scratch;
  const std::string path = scratch.file("lock");
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> winners = 0;
    std::vector<std::unique_ptr<OutputLock>> locks(8);
    {
      std::vector<std::jthread> threads;
      for (auto& lock : locks) {
        threads.emplace_back([&] {
          try {
            lock = std::make_unique<OutputLock>(path, "out", "test");
            ++winners;
          } catch (const ConfigError&) {
          }
        });
      }
    }
    EXPECT_EQ(winners, 1);
  }
}

TEST(OutputLock, NeverHasTwoHoldersWhileLocksComeAndGo) {
  const ScratchDirectory scratch;
  const std::string path = scratch.file("lock");
  std::atomic<int> holders = 0;
  std::atomic<int> taken = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int attempt = 0; attempt < 500; ++attempt) {
          try {
            const OutputLock lock(path, "out", "test");
            EXPECT_EQ(++holders, 1);
            ++taken;
            --holders;
          } catch (const ConfigError&) {
          }
        }
      });
    }
  }
  EXPECT_GT(taken, 0);
}

TEST(OutputLock, EndsWithItsProcess) {
  const ScratchDirectory scratch;
  const std::string path = scratch.file("lock");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const OutputLock lock(path, "out", "killed");
    [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(rejection(path), HasSubstr(cat("process ", child)));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(rejection(path), "accepted");
}

TEST(OutputLock, NeedsADirectoryThatExists) {
  const ScratchDirectory scratch;
  EXPECT_THROW(OutputLock(scratch.file("absent/lock"), "out", "test"), OutputError);
}

}  // namespace
}  // namespace braid
