#include "braid/schedule/workload.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

std::string rejection(std::string_view text) {
  try {
    parse_durations(text, 1);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(ParseDurations, SharesARanksTimesAmongItsChunks) {
  EXPECT_EQ(parse_durations("1,2,4", 1), (Durations{.stages = {{Seconds(1), Seconds(2), Seconds(4)}}}));
  EXPECT_EQ(parse_durations(" 1, 2 ,4,8", 2),
            (Durations{.stages = {{Seconds(0.5), Seconds(1), Seconds(2)}}, .communication = Seconds(8)}));
}

TEST(ParseDurations, RejectsWhatIsNoTime) {
  EXPECT_EQ(rejection("1,2"), "times must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got 2: '1,2'");
  for (const char* text : {"", "1,2,x", "1,2,-3", "1,2,inf", "1,,3"}) {
    EXPECT_EQ(rejection(text),
              "times must be 3 or 4 comma-separated numbers >= 0, as in 1,1.2,0.8 or 1,1.2,0.8,0.1; got '" +
                  std::string(text) + "'");
  }
}

TEST(SetExchanges, SharesARanksExchangesAmongItsChunks) {
  Durations durations = parse_durations("1,2,4", 2);
  set_exchanges(durations, "0.5, 1", 2);
  EXPECT_EQ(durations.of(0).forward_exchange, Seconds(0.25));
  EXPECT_EQ(durations.of(0).backward_exchange, Seconds(0.5));
}

TEST(SetExchanges, RejectsWhatIsNoPartOfItsAction) {
  const auto error_of = [](const char* text) -> std::string {
    Durations durations = parse_durations("1,2,4", 1);
    try {
      set_exchanges(durations, text, 1);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "was accepted";
  };
  for (const char* text : {"", "1", "1,x", "-1,1", "0,0,0", "inf,0"}) {
    EXPECT_EQ(error_of(text),
              "exchanges must be 2 comma-separated numbers >= 0, the parts of F and I, as in 0.2,0.2; got '" +
                  std::string(text) + "'");
  }
  EXPECT_EQ(error_of("1.5,0"),
            "exchanges are parts of F and I, and must not be larger than these; got '1.5,0'");
  EXPECT_EQ(error_of("1,2"), "was accepted");
}

TEST(AssumeExchanges, KeepsThoseThatAreKnown) {
  Durations durations = parse_durations("1,2,4", 1);
  assume_exchanges(durations);
  EXPECT_EQ(durations.of(0).forward_exchange, Seconds(0.1));
  EXPECT_EQ(durations.of(0).backward_exchange, Seconds(0.2));
  set_exchanges(durations, "0,1", 1);
  assume_exchanges(durations);
  EXPECT_EQ(durations.of(0).forward_exchange, Seconds(0));
  EXPECT_EQ(durations.of(0).backward_exchange, Seconds(1));
}

}  // namespace
}  // namespace braid::schedule
