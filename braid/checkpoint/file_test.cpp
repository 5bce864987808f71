#include "braid/checkpoint/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/checkpoint/test_files.h"

namespace braid::checkpoint {
namespace {

using testing::HasSubstr;

TEST(ReplacingFile, AppearsOnlyWhenCommittedAndReplacesTheOldFile) {
  const ScratchDirectory directory;
  const auto path = directory / "file";
  write_bytes(path, "old");
  write_bytes(directory / "file.partial", "left by a killed run");
  {
    ReplacingFile file(path);
    file.write("new");
    EXPECT_EQ(read_bytes(path), "old");
    file.commit();
    EXPECT_EQ(read_bytes(path), "new");
  }
  EXPECT_EQ(read_bytes(path), "new");
  EXPECT_FALSE(std::filesystem::exists(directory / "file.partial"));
}

TEST(ReplacingFile, LeavesNothingWithoutCommit) {
  const ScratchDirectory directory;
  write_bytes(directory / "file", "old");
  { ReplacingFile(directory / "file").write("new"); }
  EXPECT_EQ(read_bytes(directory / "file"), "old");
  EXPECT_FALSE(std::filesystem::exists(directory / "file.partial"));
}

TEST(ReplacingFile, WritesThroughADeviceOrPipeAndLeavesIt) {
  const ScratchDirectory directory;
  const std::string pipe = directory.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_text_file(pipe, "text");
  char read[8] = {};
  EXPECT_EQ(::read(reader, read, sizeof read), 4);
  EXPECT_STREQ(read, "text");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
  EXPECT_THAT(message_of<OutputError>([&] { write_text_file("/dev/full", "text"); }),
              HasSubstr("/dev/full: cannot be written at byte 0: No space left on device; free some space"));
}

TEST(ReplacingFile, NamesTheRemedyForAMissingDirectory) {
  const ScratchDirectory directory;
  const std::string message =
      message_of<OutputError>([&] { ReplacingFile file(directory / "absent" / "file"); });
  EXPECT_THAT(message, HasSubstr("absent/file.partial"));
  EXPECT_THAT(message, HasSubstr("create the directory first"));
}

// A file size limit stands in for a full disk: both fail in the middle of write().
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

TEST(ReplacingFile, RemovesThePartialFileWhenTheDiskIsFull) {
  const ScratchDirectory directory;
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message = message_of<OutputError>([&] {
      ReplacingFile file(directory / "file");
      file.write(std::string(600, 'x'));
      file.write(std::string(600, 'y'));
      file.commit();
    });
  }
  EXPECT_THAT(message, HasSubstr("written at byte 1000"));
  EXPECT_THAT(message, HasSubstr("free some space"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(ReadableFile, RejectsNonFilesWithoutBlocking) {
  const ScratchDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] { ReadableFile(directory / "pipe"); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_of<DataError>([&] { ReadableFile(directory.path()); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_of<DataError>([&] { ReadableFile(directory / "absent"); }), HasSubstr("No such file"));
}

TEST(ReadableFile, NamesTheEndOfAFileTruncatedWhileOpen) {
  const ScratchDirectory directory;
  write_bytes(directory / "file", "0123456789");
  const ReadableFile file(directory / "file");
  std::filesystem::resize_file(directory / "file", 4);
  std::string bytes(10, ' ');
  const std::string message =
      message_of<DataError>([&] { file.read(0, std::as_writable_bytes(std::span(bytes))); });
  EXPECT_THAT(message, HasSubstr("ends at byte 4, before byte 10"));
}

TEST(ReadText, RejectsFilesLargerThanTheLimit) {
  const ScratchDirectory directory;
  write_bytes(directory / "file", "0123456789");
  EXPECT_EQ(read_text(directory / "file", 10), "0123456789");
  EXPECT_THAT(message_of<DataError>([&] { read_text(directory / "file", 9); }),
              HasSubstr("more than the 9 B"));
}

}  // namespace
}  // namespace braid::checkpoint
