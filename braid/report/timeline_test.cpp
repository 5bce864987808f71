#include "braid/report/timeline.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "braid/base/error.h"
#include "braid/report/timeline_samples.h"

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Op;
using schedule::Seconds;

template <typename Error>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Timeline tiny() { return slowing_step(2, 2); }

TEST(RecordsText, ReadsBackExactly) {
  std::vector<ActionRecord> records;
  double time = 1.0 / 3;
  for (const Action& action : schedule::parse_actions("F0 SEND_F0 I7c1 W7c1 WAIT_SEND_F0 NORM UPDATEc1")) {
    records.push_back({action, Seconds(time), Seconds(time * 1.1), Seconds(time * 1e9)});
    time *= -1.7e-3;
  }
  EXPECT_EQ(records_from_text(to_text(records)), records);
  EXPECT_EQ(records_from_text(to_text(std::vector<ActionRecord>())), std::vector<ActionRecord>());
  for (const auto& rank : slowing_step(3, 5).ranks) EXPECT_EQ(records_from_text(to_text(rank)), rank);
}

TEST(RecordsText, GoldenText) {
  const std::vector<ActionRecord> records = {
      {{.op = Op::kForward, .chunk = 1, .microbatch = 3}, Seconds(0.25), Seconds(0.5), Seconds(1e-7)},
      {{.op = Op::kNorm}, Seconds(-1), Seconds(0), Seconds(2)}};
  EXPECT_EQ(to_text(records), "2\nF3c1 0.25 0.5 1e-07\nNORM -1 0 2\n");
}

TEST(RecordsText, EveryTruncationIsDetected) {
  const std::string text = to_text(tiny().ranks[0]);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(records_from_text(text.substr(0, length)), DataError) << text.substr(0, length);
  }
}

TEST(RecordsText, ErrorsNameTheDamage) {
  const auto error_of = [](std::string_view text) {
    return message_of<DataError>([&] { records_from_text(text); });
  };
  EXPECT_EQ(error_of(""), "action records: the text is empty");
  EXPECT_EQ(error_of("1\nF0 1 2 3"), "action records: the last line, \"F0 1 2 3\", is truncated");
  EXPECT_EQ(error_of("x\n"), "action records, line 1: must be their count, got \"x\"");
  EXPECT_EQ(error_of("-1\n"), "action records, line 1: must be their count, got \"-1\"");
  EXPECT_EQ(error_of("2\nF0 1 2 3\n"), "action records: the count is 2, but the number of records is 1");
  EXPECT_EQ(error_of("1\nF0 1 2\n"), "action records, line 2: must be an action and 3 times, got \"F0 1 2\"");
  EXPECT_EQ(error_of("1\nF0 1 2 z\n"), "action records, line 2: times must be finite numbers, got \"z\"");
  EXPECT_EQ(error_of("1\nF0 1 inf 3\n"), "action records, line 2: times must be finite numbers, got \"inf\"");
  EXPECT_TRUE(error_of("1\nQ0 1 2 3\n").starts_with("action records, line 2: ")) << error_of("1\nQ0 1 2 3\n");
}

TEST(MeasuredSimulation, AgreesWithTheSimulationThatItCameFrom) {
  const schedule::Durations durations = {
      .stages = {{.forward = Seconds(1), .backward_input = Seconds(1.25), .backward_weight = Seconds(0.5)}},
      .communication = Seconds(0.125)};
  for (int32_t ranks = 1; ranks <= 4; ++ranks) {
    for (int32_t microbatches = 1; microbatches <= 5; ++microbatches) {
      const auto plain = schedule::generate("1F1B", {.ranks = ranks, .microbatches = microbatches});
      for (const auto& schedule : {plain, lower(plain, {})}) {
        const auto simulation = simulate(schedule, durations);
        // All times are multiples of 1/8, so that the offset costs no digits.
        EXPECT_EQ(measured_simulation(undisturbed(schedule, simulation, Seconds(64))), simulation);
      }
    }
  }
  const auto v = simulate(v_schedule(), durations);
  EXPECT_EQ(measured_simulation(undisturbed(v_schedule(), v, Seconds(-64))), v);
}

TEST(MeasuredSimulation, WaitingIsNotWork) {
  Timeline timeline = {.schedule = schedule::generate("FThenB", {.ranks = 1, .microbatches = 1})};
  timeline.ranks = {{{{.op = Op::kForward}, Seconds(1), Seconds(2), Seconds(3)},
                     {{.op = Op::kBackward}, Seconds(3), Seconds(4), Seconds(6)}}};
  const auto measured = measured_simulation(timeline);
  EXPECT_EQ(measured.step_time, Seconds(4)) << "from the first work, not from the first wait";
  EXPECT_EQ(measured.longest_span, Seconds(4));
  EXPECT_EQ(measured.bubble_rate, 0.25);
}

TEST(ValidateTimeline, ErrorsNameTheMismatch) {
  const auto error_with = [](const std::function<void(Timeline&)>& change) {
    Timeline timeline = tiny();
    change(timeline);
    return message_of<DataError>([&] { validate(timeline); });
  };
  EXPECT_EQ(error_with([](Timeline&) {}), "no error");
  EXPECT_EQ(error_with([](Timeline& t) { t.ranks.pop_back(); }),
            "timeline: it has 1 rank, but its schedule has 2");
  EXPECT_EQ(error_with([](Timeline& t) { t.ranks[1].pop_back(); }),
            cat("timeline: rank 1 has ", tiny().ranks[1].size() - 1, " records, but its list has ",
                tiny().ranks[1].size(), " actions"));
  EXPECT_EQ(error_with([](Timeline& t) { t.ranks[0][0].action.microbatch = 1; }),
            "timeline: schedule 1F1B, rank 0, position 0 (F0): its record is of F1");
  EXPECT_EQ(error_with([](Timeline& t) {
              t.ranks[0][0] = {{}, Seconds(3), Seconds(2), Seconds(4)};
            }),
            "timeline: schedule 1F1B, rank 0, position 0 (F0): begin 3, ready 2 and end 4 must be finite and "
            "in this order");
  EXPECT_NE(error_with([](Timeline& t) {
              t.ranks[0][0].end = Seconds(std::numeric_limits<double>::infinity());
            }).find("must be finite"),
            std::string::npos);
  EXPECT_NE(error_with([](Timeline& t) {
              t.ranks[0][0].end += Seconds(1);
            }).find(", before the previous action ends"),
            std::string::npos);
  EXPECT_EQ(message_of<ConfigError>([] { validate(Timeline{}); }),
            message_of<ConfigError>([] { validate(schedule::Schedule{}); }));
}

TEST(ValidateTimeline, CommunicationMayOverlapComputation) {
  Timeline timeline = tiny();
  auto& records = timeline.ranks[0];
  const auto send = std::find_if(records.begin(), records.end(),
                                 [](const ActionRecord& record) { return is_send(record.action.op); });
  ASSERT_NE(send, records.end());
  send->end += Seconds(0.001);  // into the next forward
  EXPECT_NO_THROW(validate(timeline));
}

}  // namespace
}  // namespace braid::report
