#include "braid/base/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "braid/base/error.h"

namespace braid {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

template <typename Error>
Failure failure_from(const Error& error) {
  return failure_of(std::make_exception_ptr(error));
}

TEST(Failure, HasTheDocumentedExitCode) {
  EXPECT_EQ(failure_from(ConfigError("x")).exit_code, 2);
  EXPECT_EQ(failure_from(ShapeError("x")).exit_code, 2);
  EXPECT_EQ(failure_from(DataError("x")).exit_code, 2);
  EXPECT_EQ(failure_from(InternalError("x")).exit_code, 70);
  EXPECT_EQ(failure_from(std::out_of_range("x")).exit_code, 70);
  EXPECT_EQ(failure_from(42).exit_code, 70);
  EXPECT_EQ(failure_from(OutOfMemoryError("x")).exit_code, 71);
  EXPECT_EQ(failure_from(OutputError("x")).exit_code, 74);
  EXPECT_EQ(failure_from(CommError("x")).exit_code, 76);
}

TEST(Failure, KeepsBraidsSentences) {
  EXPECT_EQ(failure_from(ConfigError("--pp: wrong")).sentence, "--pp: wrong");
  EXPECT_EQ(failure_from(OutputError("a: cannot be written")).sentence, "a: cannot be written");
}

TEST(Failure, CallsOnlyTheUnknownABug) {
  EXPECT_THAT(failure_from(std::out_of_range("at")).sentence, HasSubstr("This is a bug in braid"));
  EXPECT_THAT(failure_from(InternalError("odd")).sentence, HasSubstr("This is a bug in braid"));
  EXPECT_THAT(failure_from(std::bad_alloc()).sentence, Not(HasSubstr("bug")));
}

// libtorch's own exceptions carry the text alone.
TEST(Failure, RecognisesOutOfMemoryHoweverItIsThrown) {
  const std::runtime_error of_library(
      "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
      "to "
      "allocate 1073741824 bytes. Error code 12 (Cannot allocate memory)\nframe #0: ...");
  const auto no_memory = std::system_error(ENOMEM, std::generic_category(), "mmap");
  for (const Failure& failure :
       {failure_from(std::bad_alloc()), failure_from(std::length_error("vector::reserve")),
        failure_from(of_library), failure_from(no_memory), failure_from(OutOfMemoryError("a tensor"))}) {
    EXPECT_EQ(failure.exit_code, 71);
    EXPECT_TRUE(failure.is_out_of_memory);
    EXPECT_THAT(failure.sentence,
                AllOf(StartsWith("out of memory"), Not(HasSubstr("bug")), Not(HasSubstr("frame"))));
  }
  EXPECT_THAT(failure_from(of_library).sentence, HasSubstr("a tensor of 1.00 GiB"));
  EXPECT_THAT(failure_from(OutOfMemoryError("a tensor")).sentence, HasSubstr(": a tensor"));
}

TEST(Failure, AMessageThatOnlyMentionsMemoryIsNotOne) {
  EXPECT_EQ(failure_from(ConfigError("rank 1 was out of memory")).exit_code, 2);
  EXPECT_EQ(failure_from(CommError("rank 1 was out of memory")).exit_code, 76);
  EXPECT_FALSE(is_out_of_memory(CommError("out of memory")));
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
}

TEST(Failure, AFullDiskIsAnOutputErrorAlsoFromTheStandardLibrary) {
  for (const int code : {ENOSPC, EDQUOT, EFBIG, EROFS}) {
    const std::filesystem::filesystem_error error("cannot copy", "out/model",
                                                  std::error_code(code, std::generic_category()));
    EXPECT_EQ(failure_from(error).exit_code, 74) << code;
    EXPECT_THAT(failure_from(error).sentence, AllOf(HasSubstr("out/model"), HasSubstr("; "))) << code;
  }
}

TEST(Failure, LimitsOfTheSystemNameTheirCure) {
  const auto files = std::system_error(EMFILE, std::generic_category(), "pipe");
  EXPECT_EQ(failure_from(files).exit_code, 71);
  EXPECT_EQ(failure_from(files).sentence,
            "pipe: Too many open files; raise the limit of open files (ulimit -n)");
  const auto threads = std::system_error(EAGAIN, std::generic_category());
  EXPECT_EQ(failure_from(threads).exit_code, 71);
  EXPECT_THAT(failure_from(threads).sentence, HasSubstr("ulimit -u"));
  const std::runtime_error of_library("[enforce fail at listener.cc:68] false. accept: Too many open files");
  EXPECT_EQ(failure_from(of_library).exit_code, 71);
  EXPECT_EQ(
      failure_from(of_library).sentence,
      "a limit of the system was reached: Too many open files; raise the limit of open files (ulimit -n)");
}

TEST(MemoryInUse, SaysHowMuchThereIs) {
  EXPECT_THAT(memory_in_use(), testing::ContainsRegex("[0-9.]+ [KMG]iB.*(left|allows)"));
}

}  // namespace
}  // namespace braid
