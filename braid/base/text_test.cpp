#include "braid/base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "braid/base/error.h"

namespace braid {
namespace {

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Text, TrimRemovesWhiteSpaceAtTheEndsOnly) {
  EXPECT_EQ(trim("  a b\n"), "a b");
  EXPECT_EQ(trim(" \t "), "");
}

TEST(Text, NumbersMustFillTheWholeText) {
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_FALSE(parse_int("12x"));
  EXPECT_FALSE(parse_int(""));
  EXPECT_FALSE(parse_int("9223372036854775808"));
  EXPECT_EQ(parse_double("1e-5"), 1e-5);
  EXPECT_FALSE(parse_double("1e-5 "));
}

TEST(Text, PrintedNumbersReadBackExactly) {
  for (double value : {0.1, 1.0 / 3.0, 1e300, -5e-324, 10.7, std::nextafter(1.0, 2.0)}) {
    EXPECT_EQ(parse_double(to_text(value)), value);
  }
  EXPECT_EQ(to_text(0.1f), "0.1");
  EXPECT_EQ(to_text(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(fixed(10.5, 8), "10.50000000");
  EXPECT_EQ(brief(4.9998800000000007e-05, 6), "4.99988e-05");
  EXPECT_EQ(brief(1e-6, 6), "1e-06");
}

TEST(Text, CountsAgreeWithTheirNouns) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
  EXPECT_EQ(counted(1, "microbatch", "microbatches"), "1 microbatch");
  EXPECT_EQ(counted(3, "microbatch", "microbatches"), "3 microbatches");
}

TEST(Text, BytesInBinaryUnits) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(uint64_t{3} << 30), "3.00 GiB");
}

TEST(Text, NearestFindsTyposAndRejectsUnrelatedWords) {
  const std::vector<std::string> flags = {"max_steps", "save_steps", "learning_rate"};
  EXPECT_EQ(nearest("max_step", flags), "max_steps");
  EXPECT_EQ(nearest("lerning_rate", flags), "learning_rate");
  EXPECT_EQ(nearest("max_setps", flags), "max_steps");
  EXPECT_EQ(nearest("hlep", std::vector<std::string>{"help"}), "help") << "swapped letters are one edit";
  EXPECT_FALSE(nearest("zzz", flags));
}

TEST(Error, RequireJoinsItsPartsAndThrowsTheGivenType) {
  EXPECT_NO_THROW(require<ConfigError>(true, "never"));
  try {
    require<ConfigError>(false, "max_steps must be >= 1, got ", 0);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "max_steps must be >= 1, got 0");
  }
}

}  // namespace
}  // namespace braid
