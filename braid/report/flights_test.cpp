#include "braid/report/flights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"

namespace braid::report {
namespace {

using schedule::DataAxes;
using schedule::Durations;
using schedule::Op;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

constexpr int32_t kSegments = 2;

// Every kind of data axes, for `stages` stages.
std::vector<DataAxes> all_data_axes(int32_t stages) {
  std::vector<DataAxes> all;
  const std::vector<int32_t> segments(static_cast<size_t>(stages), kSegments);
  for (const bool has_dp : {false, true}) {
    for (int32_t stage = 0; stage <= 3; ++stage) {
      for (const bool each : {false, true}) {
        all.push_back({.has_sharding = true,
                       .has_dp = has_dp,
                       .sharding_stage = stage,
                       .reduces_each_microbatch = each,
                       .segments = segments});
      }
    }
  }
  all.push_back({.has_dp = true, .sharding_stage = 0, .segments = segments});
  return all;
}

Durations slow_exchanges(int32_t stages) {
  Durations durations = {.norm_exchange = Seconds(0.3)};
  durations.stages[0].update = Seconds(0.8);
  durations.segments.assign(static_cast<size_t>(stages), {});
  for (size_t stage = 0; stage < durations.segments.size(); ++stage) {
    const double late = 0.01 * static_cast<double>(stage);
    durations.segments[stage] = {
        {.share = 0.25, .gather = Seconds(0.3), .reduce = Seconds(0.9), .reduce_dp = Seconds(0.4 + late)},
        {.share = 0.75, .gather = Seconds(0.5), .reduce = Seconds(0.2), .reduce_dp = Seconds(0.1)}};
  }
  return durations;
}

TEST(Flights, EndWhereTheSimulationSaysThatTheirWaitsEnd) {
  for (const std::string_view mode : {"1F1B", "ZBH1", "VPP"}) {
    const int32_t chunks = mode == "VPP" ? 2 : 1;
    const Schedule compute =
        schedule::generate(mode, {.ranks = 2, .chunks_per_rank = chunks, .microbatches = 4});
    for (const DataAxes& data : all_data_axes(compute.shape.stages())) {
      const Schedule schedule = lower(compute, {.data = data});
      const Durations durations = slow_exchanges(schedule.shape.stages());
      const Simulation simulation = simulate(schedule, durations);
      for (int32_t rank = 0; rank < 2; ++rank) {
        const auto row = static_cast<size_t>(rank);
        const auto& list = schedule.ranks[row];
        const auto& intervals = simulation.ranks[row];
        const std::vector<Flight> flights = flights_of(schedule, rank, intervals, &durations);
        EXPECT_EQ(
            std::ssize(flights),
            std::ranges::count_if(list, [](const auto& action) { return lane_of(action.op).has_value(); }))
            << to_string(list);
        std::map<Lane, Seconds> free;
        for (const Flight& flight : flights) {
          const Lane lane = *lane_of(flight.action.op);
          const schedule::Interval& wait = intervals[flight.wait_position];
          EXPECT_EQ(list[flight.start_position], flight.action);
          EXPECT_EQ(awaited_by(list[flight.wait_position].op), flight.action.op);
          EXPECT_GE(flight.interval.start, intervals[flight.start_position].end);
          EXPECT_EQ(wait.end, std::max(wait.start, flight.interval.end)) << to_string(flight.action);
          EXPECT_GE(flight.interval.start, free[lane]) << "one at a time in a lane";
          free[lane] = flight.interval.end;
        }
        const std::vector<Flight> measured = flights_of(schedule, rank, intervals, nullptr);
        ASSERT_EQ(measured.size(), flights.size());
        for (size_t i = 0; i < measured.size(); ++i) {
          EXPECT_EQ(measured[i].action, flights[i].action);
          EXPECT_EQ(measured[i].interval.start, intervals[flights[i].start_position].start);
          EXPECT_EQ(measured[i].interval.end, intervals[flights[i].wait_position].end);
        }
      }
    }
  }
}

TEST(Flights, ANormThatNobodyWaitsForIsNotInFlight) {
  const Schedule compute = schedule::generate("1F1B", {.ranks = 2, .microbatches = 2});
  for (const auto use : {schedule::NormUse::kScalesUpdate, schedule::NormUse::kReportedOnly}) {
    const Schedule schedule = lower(compute, {.step_end = {.norm_use = use}});
    const auto flights = flights_of(schedule, 0, simulate(schedule, {}).ranks[0], nullptr);
    EXPECT_EQ(flights.size(), use == schedule::NormUse::kScalesUpdate ? 1u : 0u);
  }
}

TEST(Flights, OfATiedWeightEndWithTheirWait) {
  const Schedule compute = schedule::generate("1F1B", {.ranks = 2, .microbatches = 2});
  const Schedule schedule = lower(compute, {.step_end = {.tied = {{.first = 0, .last = 1}}}});
  const Durations durations = {.tied_exchange = Seconds(0.5)};
  const auto flights = flights_of(schedule, 1, simulate(schedule, durations).ranks[1], &durations);
  ASSERT_EQ(flights.size(), 2u);
  const auto tied = std::ranges::find(flights, Op::kReduceTied, [](const Flight& f) { return f.action.op; });
  ASSERT_NE(tied, flights.end());
  EXPECT_GT(tied->interval.end - tied->interval.start, Seconds(0.4));
}

TEST(Flights, EveryOpHasAtMostOneRole) {
  for (int i = 0; i < schedule::kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    EXPECT_FALSE(lane_of(op) && awaited_by(op)) << to_string(op);
    if (const auto awaited = awaited_by(op)) {
      EXPECT_TRUE(lane_of(*awaited)) << to_string(op);
      EXPECT_EQ(to_string(op), "WAIT_" + std::string(to_string(*awaited)));
    }
  }
  EXPECT_EQ(to_string(Lane::kDp), "dp");
}

}  // namespace
}  // namespace braid::report
