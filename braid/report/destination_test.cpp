// The bytes of every destination, against ones derived by hand from the formats. That the real readers accept
// them is tests/reports_slow_test.py's to show.
#include "braid/report/destination.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/report/checksum.h"
#include "braid/report/tensorboard.h"
#include "braid/report/wandb.h"

namespace braid::report {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Destinations : public testing::Test {
 protected:
  Destinations() {
    run_.curves_folder = folder_ / "curves";
    run_.wandb_parent = folder_.path();
  }

  std::unique_ptr<Destination> make(const char* name) { return make_destination(name, run_); }

  // The content of the only file whose path contains `part`.
  std::string written(std::string_view part) const {
    std::string found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file() || entry.path().string().find(part) == std::string::npos) continue;
      EXPECT_EQ(found, "") << "one file";
      found = fs::relative(entry.path(), folder_.path()).string();
    }
    return folder_.read(found);
  }

  ScratchDirectory folder_;
  RunDescription run_ = {.name = "a run",
                         .host = "here",
                         .version = "1",
                         .options = {{"seed", "42"}, {"device", "\"cpu\""}},
                         .wandb_project = "p",
                         .started = WallTime(std::chrono::seconds(1000))};
  WallTime now_ = WallTime(std::chrono::milliseconds(1'000'500));
  LogEntry entry_ = {.global_step = 300, .metrics = {{.key = "loss", .value = 1.5, .text = "1.5"}}};
};

TEST_F(Destinations, TfRecordsHaveLengthAndMaskedChecksums) {
  // masked_crc32c of eight bytes 09 00 .. 00, and of the data, whose value checksum_test.cpp derives.
  const std::string length = "\x09\0\0\0\0\0\0\0"s;
  const uint32_t of_length = masked_crc32c(length);
  std::string expected = length;
  for (int i = 0; i < 4; ++i) expected += static_cast<char>(of_length >> 8 * i & 0xff);
  EXPECT_EQ(tf_record("123456789"), expected + "123456789" + "\xe5\xb0\x8a\xc7");
}

// Event: wall_time (1, double) 1000.5 = 0x408f440000000000; step (2) 300 = ac 02; summary (5) of one value
// (1): tag (1), simple_value (2, float) 1.5 = 0x3fc00000.
TEST_F(Destinations, TensorBoardsScalar) {
  make("tensorboard")->add(entry_, now_);
  const std::string value = "\x0a\x0atrain/loss\x15\0\0\xc0\x3f"s;
  ASSERT_EQ(value.size(), 17U);
  const std::string event = "\x09\0\0\0\0\0\x44\x8f\x40"s + "\x10\xac\x02" + "\x2a\x13" + "\x0a\x11" + value;
  const std::string file = written("events.out.tfevents.1000.here.");
  EXPECT_TRUE(file.ends_with(tf_record(event)));
  EXPECT_TRUE(file.starts_with(tf_record("\x09\0\0\0\0\0\x40\x8f\x40\x1a\x0d"s + "brain.Event:2")));
  EXPECT_THAT(file, HasSubstr("args/text_summary"));
  EXPECT_THAT(file, HasSubstr("```json\n{\n  \"seed\": 42,\n  \"device\": \"cpu\"\n}\n```"));
}

// Record: values (1): id (1) 300, tag (2), timestamp (3) 1000500 ms = b4 88 3d, value (4, float) 1.5.
TEST_F(Destinations, VisualDlsScalar) {
  make("visualdl")->add(entry_, now_);
  const std::string value = "\x08\xac\x02\x12\x0atrain/loss\x18\xb4\x88\x3d\x25\0\0\xc0\x3f"s;
  ASSERT_EQ(value.size(), 24U);
  const std::string file = written("vdlrecords.1000.log");
  EXPECT_TRUE(file.ends_with("\x1a\0\0\0\0\0\0\0\x0a\x18"s + value));
  // id 0 is left out; timestamp 1000000 = c0 84 3d; meta_data (10) with display_name (1).
  const std::string meta = "\x12\x0dmeta_data_tag\x18\xc0\x84\x3d\x52\x07\x0a\x05"s + "a run";
  EXPECT_TRUE(file.starts_with("\x1e\0\0\0\0\0\0\0\x0a\x1c"s + meta));
}

TEST_F(Destinations, TwoVisualDlRunsOfOneSecondHaveTwoFiles) {
  make("visualdl");
  make("visualdl");
  EXPECT_TRUE(fs::exists(folder_ / "curves/vdlrecords.1000.log"));
  EXPECT_TRUE(fs::exists(folder_ / "curves/vdlrecords.1001.log"));
}

// A record: CRC-32 of type and data, length in two bytes, type. The first block has 7 bytes of header.
TEST(WandbLog, RecordsDoNotCrossBlocks) {
  EXPECT_EQ(BlockedLog::header(), ":W&B\xe1\xbe\0"s);
  const auto framed = [](char type, const std::string& data) {
    const uint32_t sum = crc32(type + data);
    std::string out;
    for (int i = 0; i < 4; ++i) out += static_cast<char>(sum >> 8 * i & 0xff);
    return out + static_cast<char>(data.size() & 0xff) + static_cast<char>(data.size() >> 8) + type + data;
  };
  BlockedLog log;
  EXPECT_EQ(log.records("abc"), framed(1, "abc"));
  // 7 + 10 bytes are used; this leaves 5, too few for a record's header: they are zeros.
  const std::string most(32768 - 17 - 7 - 5, 'x');
  EXPECT_EQ(log.records(most), framed(1, most));
  EXPECT_EQ(log.records("d"), std::string(5, '\0') + framed(1, "d"));
  // The rest of the second block, the whole third, and 10 bytes.
  const std::string rest(32768 - 8 - 7, 'a'), whole(32768 - 7, 'b'), last(10, 'c');
  EXPECT_EQ(log.records(rest + whole + last), framed(2, rest) + framed(3, whole) + framed(4, last));
  EXPECT_EQ(log.records(""), framed(1, ""));
}

TEST_F(Destinations, WandbsHistory) {
  const auto wandb = make("wandb");
  wandb->add(entry_, now_);
  entry_.metrics[0].value = std::numeric_limits<double>::infinity();
  wandb->add(entry_, now_);
  wandb->finish(now_);
  const std::string file = written(".wandb");
  EXPECT_THAT(wandb->describe(), HasSubstr("/wandb/offline-run-1970"));
  // HistoryItem (1): nested_key (2), value_json (16).
  EXPECT_THAT(file, HasSubstr("\x0a\x12\x12\x0atrain/loss\x82\x01\x03"
                              "1.5"));
  EXPECT_THAT(file, HasSubstr("\x12\x0atrain/loss\x82\x01\x08Infinity"));
  EXPECT_THAT(file, HasSubstr("\x12\x11train/global_step\x82\x01\x03"
                              "300"));
  EXPECT_THAT(file, HasSubstr("\x12\x08_runtime\x82\x01\x03"
                              "0.5"));
  EXPECT_THAT(file, HasSubstr("\x0a\x04seed\x82\x01\x02"
                              "42"));
  // Record: num (1), which counts them, and exit (18) with runtime (2).
  EXPECT_TRUE(file.ends_with("\x08\x09\x92\x01\x02\x10\0"s))
      << "header, run, 2 metrics, 4 of the entries, exit";
}

TEST_F(Destinations, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("curves", "a file");
  for (const char* name : {"tensorboard", "visualdl"}) {
    try {
      make(name);
      FAIL() << name;
    } catch (const OutputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot create " + (folder_ / "curves").string() + ": ")) << name;
    }
  }
}

// Like a full disk, a limit on the size of files lets a write end early or fail.
TEST_F(Destinations, LostRecordsAreAnError) {
  const auto destination = make("tensorboard");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1024;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    for (int i = 0; i < 100; ++i) destination->add(entry_, now_);
  } catch (const OutputError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message,
              HasSubstr("cannot write " + (folder_ / "curves/events.out.tfevents.1000.here.").string()));
  EXPECT_THAT(message, HasSubstr("File too large"));
}

TEST(CurvesFolder, IsNamedAsPaddleNlpDoes) {
  EXPECT_THAT(default_curves_folder(WallTime(std::chrono::hours(24 * 200)), "here"),
              testing::MatchesRegex("runs/Jul(19|20)_[0-9][0-9]-[0-9][0-9]-[0-9][0-9]_here"));
}

}  // namespace
}  // namespace braid::report
