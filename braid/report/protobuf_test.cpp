#include "braid/report/protobuf.h"

#include <gtest/gtest.h>

#include <limits>

namespace braid::report {
namespace {

using namespace std::string_literals;

// The examples of the encoding's specification.
TEST(Protobuf, SpecifiedExamples) {
  EXPECT_EQ(ProtoMessage().integer(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(ProtoMessage().text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(ProtoMessage().message(3, ProtoMessage().integer(1, 150)).bytes(), "\x1a\x03\x08\x96\x01");
}

TEST(Protobuf, IntegersOfEveryLength) {
  EXPECT_EQ(ProtoMessage().integer(1, 0).bytes(), "\x08\x00"s);
  EXPECT_EQ(ProtoMessage().integer(1, 127).bytes(), "\x08\x7f");
  EXPECT_EQ(ProtoMessage().integer(1, 128).bytes(), "\x08\x80\x01");
  EXPECT_EQ(ProtoMessage().integer(1, -1).bytes(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(ProtoMessage().integer(1, std::numeric_limits<int64_t>::max()).bytes(),
            "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
}

// Fields from 16 on have tags of two bytes: 17 << 3 | 2 is 138, 200 << 3 | 2 is 1602.
TEST(Protobuf, LargeFieldNumbers) {
  EXPECT_EQ(ProtoMessage().text(17, "a").bytes(), "\x8a\x01\x01"s + "a");
  EXPECT_EQ(ProtoMessage().text(200, "").bytes(), "\xc2\x0c\x00"s);
}

TEST(Protobuf, NumbersAreLittleEndian) {
  EXPECT_EQ(ProtoMessage().real(1, 1.0).bytes(), "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
  EXPECT_EQ(ProtoMessage().single(2, -2.5F).bytes(), "\x15\x00\x00\x20\xc0"s);
  EXPECT_EQ(little_endian(0x0102, 4), "\x02\x01\x00\x00"s);
}

}  // namespace
}  // namespace braid::report
